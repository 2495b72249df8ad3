"""The egress: where a listener's server asks for effects, and gets the result that all servers get.

    server ──call──▶ attributed to a running transaction, numbered ──ask──▶ effects queue
           ◀─────────────────────────── result ◀──────────────────────────── results topic

Attribution is by `traceparent`, else by turn (31); a call that belongs to no running request is refused. A server's answer may
ask for effects, too, by rule (`EffectRule`): the header's value is `METHOD TARGET`, or `METHOD TARGET BODY`, and the name of the
rule is that of the far side.

In a call that was made again, an equal ask beside the first may come from the call before, which still runs: it counts as asked
by turn, so that a second server must ask for it, too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from holdfast.client.client import Client
from holdfast.continuity.answer import HOP_BY_HOP, Head
from holdfast.continuity.domain import Domain
from holdfast.continuity.effects.effect_events import Ask, Outcome, ask_fields, decode_outcome, encode
from holdfast.continuity.machines.effects import (
    How,
    Identity,
    Numbering,
    Result,
    Unattributed,
    asked_by_answer,
    attribute,
    digest_of_ask,
)
from holdfast.continuity.request import Headers
from holdfast.errors import HoldfastError

log = logging.getLogger("holdfast.continuity")

# Longer than a carrier lets an ask wait, so that its refusal comes first.
WAIT_SECONDS = 35.0
# An ask without an outcome is sent again: the note may have been missed while the link was lost.
AGAIN_SECONDS = 5.0
SUBSCRIBE_AGAIN_SECONDS = 0.2
ASKS_WAITING_MAX = 1_000
# Said anew by the carrier, or concerning the connection between server and egress.
_LEFT_OUT = HOP_BY_HOP | {
    b"host", b"content-length", b"accept-encoding", b"expect", b"traceparent", b"tracestate", b"idempotency-key",
}  # fmt: skip


class RunningCalls(Protocol):
    """The calls of a listener's server."""

    @property
    def running(self) -> Mapping[str, int]:
        """The transactions that are called now, and how often each was called, with this time."""

    @property
    def is_replaying(self) -> bool:
        """The server is being rebuilt: it gets results of then, and causes nothing."""

    def place_of(self, transaction: str) -> int:
        """Where the request stands in the topic: its results are kept as long as history reaches back to it."""


class EffectRefused(Exception):
    """An effect that is not carried out for this server, and why. `status` is what the server gets."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Egress:
    """Asks for the effects of one server. Use it as `open` … `close`, with the client of its listener."""

    def __init__(
        self,
        client: Client,
        domain: Domain,
        server: str,
        calls: RunningCalls,
        stop_rebuild: Callable[[str], None],
        wait: float = WAIT_SECONDS,
    ) -> None:
        self._client = client
        self._domain = domain
        self._server = server
        self._calls = calls
        self._stop_rebuild = stop_rebuild
        self._wait = wait
        self._numbering = Numbering()
        self._waiting: dict[Identity, asyncio.Future[Result]] = {}
        self._hears = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begin to hear results."""
        self._task = asyncio.create_task(self._hear_for_ever())
        await self._hears.wait()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for waiting in self._waiting.values():
            waiting.cancel()

    # --- asks ----------------------------------------------------------------------------------------------------------

    async def ask(self, far: str, method: str, target: str, headers: Headers, body: bytes) -> Result:
        """The result of a server's call to a far side. EffectRefused says why there is none."""
        running = self._calls.running
        traceparent = next((value for name, value in headers if name == b"traceparent"), b"")
        found = attribute(traceparent, running, self._domain.order == "domain")
        if isinstance(found, Unattributed):
            raise EffectRefused(409, f"This call belongs to no request: {found.reason}.")
        identity = self._identity(found.transaction, method, f"{far}{target}", body)
        how: How = "turn" if identity.number > 1 and running[found.transaction] > 1 else found.how
        passed = [each for each in headers if each[0] not in _LEFT_OUT]
        is_replay, place = self._calls.is_replaying, self._calls.place_of(found.transaction)
        ask = Ask(identity, self._server, how, far, method, target, passed, body, is_replay, place)
        return await self._result(ask)

    async def answered(self, transaction: str, target: str, head: Head) -> None:
        """Ask for the effects that an answer asks for. Returns when the asks are durable; nobody waits for the results."""
        for far, value in asked_by_answer(self._domain.effects, target, head):
            method, _, rest = value.decode("latin-1").partition(" ")
            at, _, body = rest.partition(" ")
            if not method.isupper() or not at.startswith("/"):
                log.warning("transaction %s asks for %s with %r, not METHOD /PATH; it is left out", transaction, far, value[:80])
                continue
            sent = body.encode("latin-1")
            identity = self._identity(transaction, method, f"{far}{at}", sent)
            calls = self._calls
            place = calls.place_of(transaction)
            await self._send(Ask(identity, self._server, "answer", far, method, at, [], sent, calls.is_replaying, place))

    def finish(self, transaction: str) -> None:
        """The call of a transaction has ended."""
        self._numbering.finish(transaction)

    def _identity(self, transaction: str, method: str, url: str, body: bytes) -> Identity:
        identity = self._numbering.identity(transaction, digest_of_ask(method, url, body))
        if isinstance(identity, Unattributed):
            raise EffectRefused(429, f"{identity.reason}.")
        return identity

    async def _result(self, ask: Ask) -> Result:
        if len(self._waiting) >= ASKS_WAITING_MAX:
            raise EffectRefused(503, f"{ASKS_WAITING_MAX:,} effects are waited for; ask again later.")
        waiting = self._waiting.setdefault(ask.identity, asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(self._wait):
                while not waiting.done():
                    await self._send(ask)
                    await asyncio.wait((waiting,), timeout=AGAIN_SECONDS)
            return waiting.result()
        except TimeoutError:
            raise EffectRefused(504, f"The effect {ask.identity.key} has no result in time; is its carrier running?") from None
        except HoldfastError as problem:
            raise EffectRefused(503, f"The effect was not asked for: {problem}") from problem
        finally:
            self._waiting.pop(ask.identity, None)

    async def _send(self, ask: Ask) -> None:
        await self._client.queue(self._domain.effects_queue).send(encode(ask), **ask_fields())

    # --- results -------------------------------------------------------------------------------------------------------

    async def _hear_for_ever(self) -> None:
        while True:
            try:
                async with self._client.topic(self._domain.results).subscribe() as incoming:
                    self._hears.set()
                    async for event in incoming:
                        self._hear(bytes(event.body))
                        await event.confirm()
            except HoldfastError as problem:
                log.info("server %s hears no results for the moment: %s", self._server, problem)
                await asyncio.sleep(SUBSCRIBE_AGAIN_SECONDS)

    def _hear(self, body: bytes) -> None:
        try:
            outcome = decode_outcome(body)
        except ValueError as problem:
            log.warning("an event in %s is no outcome: %s", self._domain.results, problem)
            return
        waiting = self._waiting.get(outcome.identity)
        if waiting is None or waiting.done():
            return
        if outcome.result is not None:
            waiting.set_result(outcome.result)
        elif outcome.kind == "refused" and outcome.server == self._server:
            self._refused(waiting, outcome)

    def _refused(self, waiting: asyncio.Future[Result], outcome: Outcome) -> None:
        if outcome.stops_rebuild:
            self._stop_rebuild(outcome.reason)
        waiting.set_exception(EffectRefused(503, f"The effect is refused: {outcome.reason}."))
