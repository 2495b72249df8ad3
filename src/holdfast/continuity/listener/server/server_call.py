"""How a listener calls its server: over HTTP, or a Python handler in its own process.

    async def handler(content: Content) -> Answer      an exception is a 500, as an HTTP server would answer it

The server sees the request as the client wrote it. If it knows keys (`in_doubt="resend"`), it gets `Idempotency-Key`, also where
the engine made the key. With `tell_server` it gets transaction, key, time, seed and `traceparent`, the same at all servers.

Tokens in a request become the server's own values, and these become tokens in its answer (`machines.aliases`); such an answer is
not streamed. A request with a token that the server has no value for is not passed on, but answered with 500: that does not win
over the answer of a server that has one. A read is declined if it would show a value that no answer to a write has shown: other
servers would not know its token.

A probe is a path of the server that is asked for a transaction: `GET PROBE?transaction=NUMBER` answers JSON with `state`, which
is `done`, `running` or `unknown`, and with `start`, an id that changes when the server is started again. It is asked on every new
connection, too, before the request is sent (`server_trust`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import NamedTuple, cast
from urllib.parse import quote

import msgspec

from holdfast.continuity.answer import Answer, Head
from holdfast.continuity.domain import AliasRule
from holdfast.continuity.effects.calls_with_effects import CallsWithEffects
from holdfast.continuity.link.socket_end import OpeningAnswered
from holdfast.continuity.listener.durable.record import Record, in_order
from holdfast.continuity.listener.server.http_caller import HttpCaller, Stream
from holdfast.continuity.listener.server.server_connection import CallFailed
from holdfast.continuity.listener.server.server_socket import ServerSocket
from holdfast.continuity.listener.server.server_trust import ServerTrust
from holdfast.continuity.machines.aliases import Aliases, UnknownToken
from holdfast.continuity.machines.doubt import ProbeAnswer
from holdfast.continuity.machines.effects import traceparent_of
from holdfast.continuity.request import Content, Headers, Request

log = logging.getLogger("holdfast.continuity")

Handler = Callable[[Content], Awaitable[Answer]]
# A server that is being started is tried again this much later.
REACH_PAUSE_SECONDS = 0.05
# A server says nothing for long where nothing happens; one that is gone closes its connection.
STREAM_IDLE_SECONDS = 3_600.0
# Of these a server may tell the last: so many can be done while a connection is made.
DONE_KEPT = 1_024
_FAILED = b"The handler of this request failed.\n"


class Probed(msgspec.Struct, frozen=True):
    """What a probe says of a transaction."""

    state: ProbeAnswer
    start: str | None = None


class Called(NamedTuple):
    """An answer, and the aliases that were learnt from it, encoded."""

    answer: Answer
    aliases: bytes | None = None


class Declined(Exception):
    """A read that this server should not answer."""


class ServerCall:
    """The server of a listener. `aliases`: None if the domain has none."""

    def __init__(
        self, call: HttpCaller | Handler | str, *, tells: bool, knows_keys: bool, probe: str, timeout: float,
        aliases: Aliases | None = None,
    ) -> None:  # fmt: skip
        self._caller = HttpCaller(call) if isinstance(call, str) else call if isinstance(call, HttpCaller) else None
        self._handler = cast(Handler, call) if self._caller is None else None
        self._tells = tells
        self._knows_keys = knows_keys
        self._probe = probe
        self._timeout = timeout
        self.effects: CallsWithEffects | None = None  # set if the server may ask for effects
        self._aliases = aliases

    def greet(self, trust: ServerTrust) -> None:
        """Ask the probe on every new connection, before anything else is sent (continuity rule 12)."""
        if self._caller is not None:
            self._caller.greeting = trust.greeting

    @property
    def is_in_process(self) -> bool:
        """It dies with the listener."""
        return self._handler is not None

    @property
    def egress_port(self) -> int:
        """The port at which the server asks for effects; 0 without an egress."""
        return self.effects.address.port if self.effects is not None and self.effects.address is not None else 0

    async def call(self, request: Request, stream: Stream | None = None) -> Called:
        """The answer to a request; a `stream` is given it while it comes. CallFailed if there is none."""
        if self._aliases is None:
            return Called(await self._ask_with_effects(request, request.content, stream))
        content = self._aliases.incoming(request.content)
        if isinstance(content, UnknownToken):
            return Called(_unknown(content))
        out = self._aliases.outgoing(request.transaction, await self._ask_with_effects(request, content))
        return Called(out.answer, Aliases.encode_learnt(out.learnt))

    @property
    def is_at_hand(self) -> bool:
        """Whether `begin` can be used now: nothing of the answer is waited for, or changed, but by the server."""
        return self._caller is not None and self._aliases is None and self.effects is None and self._caller.is_at_hand

    def begin(self, request: Request, stream: Stream, told: Callable[[Answer | CallFailed], None]) -> None:
        """Call with a request, without a task, if it `is_at_hand`."""
        assert self._caller is not None
        self._caller.call_at_once(request.content, self._extra(request), self._timeout, stream, told)

    def begin_read(self, content: Content, stream: Stream, told: Callable[[Answer | CallFailed], None]) -> None:
        """The same with a request that is not in the topic."""
        assert self._caller is not None
        self._caller.call_at_once(content, _time_and_seed(content) if self._tells else [], self._timeout, stream, told)

    async def _ask_with_effects(self, request: Request, content: Content, stream: Stream | None = None) -> Answer:
        """The answer; where it may ask for effects, it is whole before any of it is handed on."""
        if self.effects is None:
            return await self.ask(content, self._extra(request), stream)
        return await self.effects.call(request, lambda: self.ask(content, self._extra(request)))

    async def read(self, number: str, content: Content, stream: Stream | None = None) -> Answer:
        """The answer to a request that is not in the topic. Declined if it would show a value that has no token."""
        headers = _time_and_seed(content) if self._tells else None
        if self._aliases is None:
            return await self.ask(content, headers, stream)
        own = self._aliases.incoming(content)
        if isinstance(own, UnknownToken):
            return _unknown(own)
        out = self._aliases.outgoing(number, await self.ask(own, headers))
        for alias in out.learnt:
            self._aliases.forget(alias)
        if out.learnt:
            raise Declined(f"the answer shows a value of alias {out.learnt[0].name!r} that no answer to a write has shown")
        return out.answer

    async def ask(self, content: Content, headers: Headers | None = None, stream: Stream | None = None) -> Answer:
        """The answer to a request as it is."""
        if self._caller is not None:
            return await self._caller.call(content, headers, self._timeout, stream)
        return await self._handle(content, headers or [])

    async def pass_through(self, content: Content) -> AsyncGenerator[Head | bytes, None]:
        """The head of an answer that may never end, then its body as it comes. Its values do not become tokens."""
        own = self._aliases.incoming(content) if self._aliases is not None else content
        if isinstance(own, UnknownToken):
            answer = _unknown(own)
            yield answer.head
            yield answer.body
            return
        content = own
        if self._caller is None:
            answer = await self._handle(content, [])
            yield answer.head
            yield answer.body
            return
        async with aclosing(self._caller.call_in_parts(content, None, STREAM_IDLE_SECONDS)) as parts:
            async for each in parts:
                yield each

    async def open_socket(self, content: Content) -> ServerSocket:
        """A WebSocket at the server. OpeningAnswered if it answers with a status; CallFailed if there is none."""
        own = self._aliases.incoming(content) if self._aliases is not None else content
        if isinstance(own, UnknownToken):
            raise OpeningAnswered(_unknown(own))
        if self._caller is None:
            raise CallFailed("refused", "a server that is a Python handler has no WebSocket")
        if self._caller.greeting is not None:
            await self._caller.reach(self._timeout)  # a server that was started again is not shown (continuity rule 12)
        return await ServerSocket.open(self._caller, own, self._timeout)

    async def _handle(self, content: Content, headers: Headers) -> Answer:
        assert self._handler is not None
        named = {name for name, _ in headers}  # said anew, as `HttpCaller` does it
        told = [*(each for each in content.headers if each[0] not in named), *headers]
        try:
            async with asyncio.timeout(self._timeout):
                return await self._handler(msgspec.structs.replace(content, headers=told))
        except TimeoutError as problem:
            raise CallFailed("timed out", f"no answer within {self._timeout:g} s") from problem
        except Exception:  # whatever a program raises is its answer, as it is under an HTTP server
            log.exception("the handler of %s %s failed", content.method, content.target)
            return Answer(Head(500, [(b"content-type", b"text/plain")], len(_FAILED)), _FAILED)

    def _extra(self, request: Request) -> Headers:
        extra = [(b"idempotency-key", request.key.encode())] if self._knows_keys else []
        if self._tells:
            extra += [
                (b"holdfast-transaction", request.transaction.encode()),
                (b"holdfast-key", request.key.encode()),
                *_time_and_seed(request.content),
                (b"traceparent", traceparent_of(request.transaction).encode()),
            ]
        return extra

    async def probe(self, transaction: str) -> Probed:
        """Ask the server for a transaction. A probe that cannot be asked, or says nothing, leaves the call running."""
        if not self._probe:
            return Probed("unknown")
        try:
            answer = await self.ask(Content("GET", f"{self._probe}?transaction={quote(transaction)}", []))
            return msgspec.json.decode(answer.body, type=Probed) if answer.head.status == 200 else Probed("running")
        except (CallFailed, msgspec.DecodeError) as problem:
            log.info("the probe %s says nothing of %s: %s", self._probe, transaction, problem)
            return Probed("running")

    async def until_reachable(self, timeout: float) -> bool:
        """Wait until the server takes connections, for so long; whether it does."""
        deadline = asyncio.get_running_loop().time() + timeout
        while self._caller is not None:
            try:
                return await self._caller.reach(self._timeout)
            except CallFailed as problem:
                if asyncio.get_running_loop().time() >= deadline:
                    log.warning("the server is not reachable yet: %s", problem)
                    return False
            await asyncio.sleep(REACH_PAUSE_SECONDS)
        return True

    async def close(self) -> None:
        if self.effects is not None:
            await self.effects.close()
        if self._caller is not None:
            await self._caller.close()


def aliases_in(rules: Sequence[AliasRule], records: Iterable[Record]) -> Aliases | None:
    """The aliases of these rules, with those that records of a store have; None without rules."""
    if not rules:
        return None
    aliases = Aliases(rules)
    for each in in_order(each for each in records if each.aliases is not None):
        aliases.decode(each.aliases or b"")
    return aliases


def _time_and_seed(content: Content) -> Headers:
    """What all servers see alike, also when a request is sent again (continuity rule 19)."""
    return [(b"holdfast-time", b"%d" % content.time_us), (b"holdfast-seed", b"%d" % content.seed)]


def _unknown(unknown: UnknownToken) -> Answer:
    text = f"This request names {unknown.token}, which this server has no value for.\n".encode()
    return Answer(Head(500, [(b"content-type", b"text/plain")], len(text)), text)
