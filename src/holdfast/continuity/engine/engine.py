"""The engine: takes a request, sends it to all servers of its domain as one event, and returns the first answer.

    request ──▶ refused: no such route, too few current servers, too many under way (nothing was appended)
            ──▶ session, sequence, key, digest, transaction number ──▶ topic ──▶ receipt: accepted, and so done
            ──▶ parts from the listeners ──▶ gathering ──▶ the first answer that may win

An engine keeps no state that another needs: a client that retries at another engine with its key sends one more request, and the
listeners answer it from their stores (continuity rule 1). A request that was not certainly left out of the topic is never called
refused: the client gets 504 with the number (continuity rule 15).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
import time
from types import TracebackType
from typing import Any, Literal, Self

from holdfast.client.client import Client, connect
from holdfast.continuity import register, roll_call
from holdfast.continuity.answer import Answer, Part
from holdfast.continuity.domain import Domain
from holdfast.continuity.engine.disagreements import Disagreements
from holdfast.continuity.engine.given_answers import GivenAnswers
from holdfast.continuity.engine.registration import Registration
from holdfast.continuity.engine.servers import Server, Servers
from holdfast.continuity.engine.sockets import PassedSocket, Sockets
from holdfast.continuity.engine.transactions.reads import Reads
from holdfast.continuity.engine.transactions.sessions import Sessions
from holdfast.continuity.engine.transactions.under_way import Transaction, UnderWay
from holdfast.continuity.engine.transactions.writes import Writes
from holdfast.continuity.errors import NotTaken, ReEntry
from holdfast.continuity.limits.removal import Removal
from holdfast.continuity.link.answer_server import AnswerServer, ListenerLink
from holdfast.continuity.link.frame import Answered, Message, Running, Seen, SocketFrame, SocketOpened, State
from holdfast.continuity.link.frame import Resume as ResumeFrame
from holdfast.continuity.machines.effects import trace_in
from holdfast.continuity.machines.gathering import Decided, End, Resume
from holdfast.continuity.machines.routes import Routes
from holdfast.continuity.request import Content, Headers
from holdfast.node.settings import checked_advertised

log = logging.getLogger("holdfast.continuity")

CHECK_SECONDS = 0.5
# An engine that ends waits so long for Holdfast.
CLOSE_SECONDS = 2.0


class Engine:
    """`async with Engine(url, "shop") as engine: answer = await engine.request("POST", "/orders", [], b"…")`."""

    def __init__(
        self,
        url: str,
        domain: str,
        *,
        name: str = "",
        site: str = "",
        answers: tuple[str, int] = ("127.0.0.1", 0),
        advertise: str = "",
        tls: ssl.SSLContext | None = None,
        password: str | None = None,
    ) -> None:
        """`answers`: where listeners reach this engine; `advertise`: the same as they see it, `host:port`, if it differs.
        `tls`: the context of those links, with client certificates if they are wanted."""
        self.start = secrets.token_hex(8)
        self.name = name or f"engine-{self.start[:6]}"
        self.site = site
        self._url = url
        self._password = password
        self._domain_name = domain
        self._answers = answers
        self._advertise = checked_advertised(advertise)
        self._tls = tls
        self._loop_time = time.monotonic
        self.servers = Servers(self._loop_time)
        self._sessions = Sessions()
        self._under_way = UnderWay(self._loop_time, self._resume, self._end, self._decide)
        self._heard = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        names = ("requests", "reads", "answered", "refused", "not_answered", "disagreements")
        self.figures: dict[str, int] = dict.fromkeys(names, 0)

    # --- opening and closing -----------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Read the definition, listen for answers, and register in the topic."""
        self.client: Client = await connect(self._url, password=self._password).open()
        try:
            self.domain: Domain = await register.read(self.client, self._domain_name)
            self._under_way.keeps_traces = self.domain.tell_server
            self._topic = self.client.topic(self.domain.requests)
            self._given = GivenAnswers(self._topic)
            self._disagreements = Disagreements(self._domain_name, self._topic, self.client.topic(self.domain.disagreements))
            self._routes = Routes(self.domain.routes)
            self._reads = Reads(
                self.domain, self.start, self.servers, self._sessions, self._under_way, self._expected, self.figures,
                self._loop_time,
            )  # fmt: skip
            self._writes = Writes(
                self.domain, self.name, self.start, self._topic, self.servers, self._sessions, self._under_way, self._expected,
                self.figures, self._loop_time,
            )  # fmt: skip
            self.sockets = Sockets(self.start, self.domain.answer_timeout)
            self._server = AnswerServer(self, self.domain.name, self.name, self.start)
            _, port = await self._server.listen(*self._answers, self._tls)
            told = {
                "engine": self.name, "start": self.start, "site": self.site,
                "address": self._advertise or f"{self._answers[0]}:{port}", "tls": self._tls is not None,
                "local": self._server.local if not self._advertise else "",
            }  # fmt: skip
            self._registration = await Registration.open(self.client, self._topic, told, self._take)
        except BaseException:
            await self.client.close()
            raise
        removal = Removal(self.client, self.domain, lambda: self.servers.members)
        works = (
            self._given.publish_for_ever(), self._disagreements.publish_for_ever(), self._registration.receive_for_ever(),
            self._check_servers(), self._registration.renew_for_ever(lambda: len(self.servers) > 0),
            removal.check_for_ever(self.servers.bytes_passed),
            roll_call.answer_for_ever(self.client, self.domain.name, self.description),
        )  # fmt: skip
        self._tasks = [asyncio.create_task(each) for each in works]
        return self

    async def close(self) -> None:
        """Take no more requests; publish what was given; leave."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._given.flush()
        except TimeoutError:
            log.warning("Holdfast is away: which of the last answers were given is not recorded")
        await self._registration.leave()
        self._under_way.close()
        await self._server.close()
        await self.client.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    @property
    def is_ready(self) -> bool:
        """Enough servers are current for a request to be taken."""
        return len(self.servers.current()) >= self.domain.servers_min

    async def until_ready(self, timeout: float) -> None:
        """Wait until enough servers are current. TimeoutError when that takes longer."""
        async with asyncio.timeout(timeout):
            while not self.is_ready:
                self._heard.clear()
                await self._heard.wait()

    # --- a request ---------------------------------------------------------------------------------------------------

    async def request(
        self, method: str, target: str, headers: Headers | None = None, body: bytes = b"", *, session: str = "", key: str = ""
    ) -> Answer:
        """The first answer of the domain's servers. NotTaken if nothing was appended; NotAnswered if no answer came in time."""
        transaction, number = await self.submit(method, target, headers or [], body, session=session, key=key)
        try:
            return await transaction.whole()
        finally:
            self.leave(number)

    async def submit(
        self, method: str, target: str, headers: Headers, body: bytes, *, session: str = "", key: str = "", number: str = ""
    ) -> tuple[Transaction, str]:
        """Send a request and wait for the head of its answer. Say `leave` when the answer was handed on."""
        await self._check_entry(headers)
        route = self._routes.find(method, target)
        if route is not None:
            read = await self._reads.read(route, method, target, headers, body, session)
            return read, read.number
        transaction = await self._writes.write(method, target, headers, body, session, key, number)
        self._reads.note(transaction, session)
        return transaction, transaction.number

    def begin(
        self, method: str, target: str, headers: Headers, body: bytes, *, session: str, key: str, number: str
    ) -> Transaction | None:  # fmt: skip
        """Send a write, or a read to all servers, without waiting; None if something must be waited for first: say `submit`.
        When its `watcher` is called, say `answered`. NotTaken if nothing was sent."""
        if self._under_way.keeps_traces and trace_in(headers):
            return None  # the listeners must be asked first
        route = self._routes.find(method, target)
        if route is None:
            return self._writes.begin(method, target, headers, body, session, key, number)
        if route.kind != "read" or route.send != "all":
            return None
        return self._reads.begin(method, target, headers, body, session)

    def answered(self, transaction: Transaction, session: str) -> None:
        """Heed the answer to a request that was begun. NotTaken or NotAnswered if there is none."""
        if transaction.is_read:
            self._reads.answered(transaction, session)
        else:
            self._reads.note(self._writes.answered(transaction), session)

    async def _check_entry(self, headers: Headers) -> None:
        """ReEntry if a server that processes a request asks its own domain (continuity rule 13). Of a request that another engine
        has taken, the listeners know."""
        if self._under_way.keeps_traces and (trace := trace_in(headers)):
            running = self._under_way.traced(trace) or await self.servers.running(trace)
            if running:
                raise ReEntry(running)

    async def open_socket(self, target: str, headers: Headers, session: str) -> tuple[PassedSocket, SocketOpened]:
        """A WebSocket at one current server, for a route that is declared as a stream. Say `sockets.leave` at its end."""
        await self._check_entry(headers)
        self.figures["reads"] += 1
        current = self._expected()
        place = self._sessions.get(session).place if session else 0
        return await self.sockets.open(Content("GET", target, headers), place, current)

    def leave(self, number: str) -> None:
        """The answer of this transaction was handed on, or its client has left."""
        transaction = self._under_way.get(number)
        if transaction is not None and transaction.streamed_by:
            self._reads.stop(transaction)
        else:
            self._under_way.leave(number)

    def is_running(self, number: str) -> bool:
        """Whether a transaction of this engine is still processed by a server, as far as is known."""
        return self._under_way.get(number) is not None

    def is_stream(self, method: str, target: str) -> bool:
        """Whether a route is declared that passes this request through as a stream (23)."""
        route = self._routes.find(method, target)
        return route is not None and route.kind == "stream"

    def _expected(self) -> list[Server]:
        """The servers that are expected to answer. NotTaken if they are too few, or too many requests are under way."""
        current = self.servers.current()
        if len(current) < self.domain.servers_min:
            self.figures["refused"] += 1
            raise NotTaken(f"{len(current)} of {self.domain.servers_min} servers are current; nothing was sent, repeat it later")
        if len(self._under_way) >= self.domain.requests_max:
            self.figures["refused"] += 1
            raise NotTaken(f"{self.domain.requests_max} requests are under way; nothing was sent, repeat it later", retry_after=1)
        return current

    # --- what listeners say ------------------------------------------------------------------------------------------

    def came(self, link: ListenerLink) -> None:
        server = self.servers.enter(link)
        self._under_way.find(server.name)
        log.info("the listener of %s, site %s, is linked", server.name, server.site or "-")

    def heard(self, link: ListenerLink, message: Message) -> None:
        assert link.hello is not None
        if isinstance(message, Answered):
            self._take(link.hello.server, message.part)
        elif isinstance(message, State):
            server = self.servers.hear(link, message)
            self._heard.set()
            if server is not None:
                self._lose(server.name, "removed")
        elif isinstance(message, Running):
            self.servers.heard_running(link.hello.server, message)
        elif isinstance(message, Seen):
            self._sessions.seen(message.session, link.hello.server)
        elif isinstance(message, SocketFrame):
            self.sockets.hear(link.hello.server, message)

    def went(self, link: ListenerLink) -> None:
        server = self.servers.leave(link)
        if server is not None:
            log.info("the link of %s is gone", server.name)
            self._lose(server.name, "link lost")

    def _lose(self, server: str, kind: Literal["link lost", "removed"]) -> None:
        self._under_way.lose(server, kind)
        self.sockets.lose(server, "its link is lost" if kind == "link lost" else "it is not current any more")

    def _take(self, server: str, part: Part) -> None:
        transaction = self._under_way.get(part.transaction)
        if transaction is not None:
            transaction.places[server] = part.place
            self._under_way.act(part.transaction, transaction.gathering.part(server, part, self._loop_time()))

    def _resume(self, number: str, wanted: Resume) -> None:
        server = self.servers.get(wanted.server)
        if server is not None:
            server.link.send(ResumeFrame(number, wanted.offset))

    async def _check_servers(self) -> None:
        """Do not wait for servers that fell silent."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for server in self.servers.silent():
                self._lose(server.name, "link lost")

    # --- comparison and records --------------------------------------------------------------------------------------

    def _end(self, transaction: Transaction, end: End) -> None:
        """An answer was given: a retry gets the same (continuity rule 4)."""
        if transaction.key and end.server and transaction.begin is not None and not transaction.begin.replayed:
            self._given.add(transaction.key, end.server, end.comparison)

    def _decide(self, transaction: Transaction, decided: Decided) -> None:
        """All servers have answered, or had the time to."""
        self.servers.hold_against(decided.kinds)
        if transaction.is_comparable and (decided.named or "wrong" in decided.kinds.values()):
            self.figures["disagreements"] += 1
            self._disagreements.add(transaction, decided)

    def description(self) -> dict[str, Any]:
        """The answer to a roll call."""
        return {
            "part": "engine", "name": self.name, "site": self.site, "start": self.start, "is_ready": self.is_ready,
            "under_way": len(self._under_way), "kinds": self.servers.kinds, **self.figures, "servers": self.servers.describe(),
        }  # fmt: skip
