"""Reads: requests of declared routes, sent to current servers beside the journal.

    all       to every current server at once; the first answer wins
    hedged    to one, and to the next after HEDGE_SECONDS without an answer, or when the one before fails
    stream    passed through from one, to the next if that declines; its end is the server's, or the client's (23)

A read carries the newest place its session saw, by read or write, so that nobody reads what was before their own write; the place
of the topic's head as far as it is known when the session is new (continuity rule 10). A listener that is behind declines.
Answers are compared only where servers were at the same place. The reads of a hedged route take turns among the servers.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable

from holdfast.continuity.domain import Domain, Route
from holdfast.continuity.engine.servers import Server, Servers
from holdfast.continuity.engine.transactions.sessions import Sessions
from holdfast.continuity.engine.transactions.under_way import Transaction, UnderWay
from holdfast.continuity.errors import NotAnswered, NotTaken
from holdfast.continuity.link import frame
from holdfast.continuity.link.frame import Read, Stop
from holdfast.continuity.machines.gathering import Error, Gathering
from holdfast.continuity.request import Content, Headers

HEDGE_SECONDS = 0.05
# A stream may be silent for as long as it likes; its head may not.
STREAM_SECONDS = 30 * 86_400.0


class Reads:
    def __init__(
        self,
        domain: Domain,
        start: str,
        servers: Servers,
        sessions: Sessions,
        under_way: UnderWay,
        expected: Callable[[], list[Server]],
        figures: dict[str, int],
        clock: Callable[[], float],
    ) -> None:
        """`expected` gives the servers that may be asked, or raises NotTaken."""
        self._domain = domain
        self._start = start
        self._servers = servers
        self._sessions = sessions
        self._under_way = under_way
        self._expected = expected
        self._figures = figures
        self._clock = clock
        self._numbers = 0

    async def read(self, route: Route, method: str, target: str, headers: Headers, body: bytes, session: str) -> Transaction:
        """Wait for the head of the first answer. NotTaken or NotAnswered if there is none."""
        if route.kind == "read" and route.send == "all":
            transaction = self.begin(method, target, headers, body, session)
            try:
                await transaction.answered()
            except BaseException:
                self._under_way.leave(transaction.number)
                raise
            return self.answered(transaction, session)
        content, place, current = self._asked(method, target, headers, body, session)
        if route.kind == "stream":
            return self.answered(await self._pass_through(content, place, current), session)
        return self.answered(await self._ask_hedged(content, place, current), session)

    def begin(self, method: str, target: str, headers: Headers, body: bytes, session: str) -> Transaction:
        """Ask all servers at once, without waiting. Say `answered` when it is. NotTaken if nobody can be asked."""
        content, place, current = self._asked(method, target, headers, body, session)
        return self._begin(content, place or self._servers.newest_place, current)[0]

    def _asked(
        self, method: str, target: str, headers: Headers, body: bytes, session: str
    ) -> tuple[Content, int, list[Server]]:  # fmt: skip
        """What is read, the newest place that the session saw (0 if none), and who is asked."""
        self._figures["reads"] += 1
        current = self._expected()
        place = self._sessions.get(session).place if session else 0
        return Content(method, target, headers, body, time.time_ns() // 1000, secrets.randbits(63)), place, current

    def answered(self, transaction: Transaction, session: str) -> Transaction:
        """A read that was answered. NotTaken or NotAnswered if it was not."""
        if transaction.error is not None:
            self._under_way.leave(transaction.number)
            if transaction.error.status == 503:
                self._figures["refused"] += 1
                raise NotTaken(f"all servers declined: {transaction.error.reason}; repeat it later")
            raise NotAnswered(transaction.error.status, transaction.error.reason, transaction.number, "")
        self.note(transaction, session)
        return transaction

    def note(self, transaction: Transaction, session: str) -> None:
        """A request was answered: what its session has seen, and who was the first."""
        assert transaction.begin is not None
        self._figures["answered"] += 1
        if session:
            seen = self._sessions.get(session)
            seen.place = max(seen.place, transaction.place)
        server = self._servers.get(transaction.begin.server)
        if server is not None:
            server.firsts += 1

    async def _ask_hedged(self, content: Content, place: int, current: list[Server]) -> Transaction:
        place = place or self._servers.newest_place
        turn = (self._numbers + 1) % len(current)
        others = current[turn:] + current[:turn]
        while True:
            transaction = await self._ask(content, place, [others.pop(0)], others)
            is_failed = transaction.begin is None or transaction.begin.head.status >= 500
            if not is_failed or not others:
                return transaction
            self._under_way.leave(transaction.number)

    async def _ask(self, content: Content, place: int, asked: list[Server], others: list[Server]) -> Transaction:
        """Ask these servers at once, and of the others one after the other; those that were asked are taken from `others`."""
        transaction, encoded = self._begin(content, place, asked)
        try:
            await self._hedge(encoded, transaction, others)
            await transaction.answered()
        except BaseException:
            self._under_way.leave(transaction.number)
            raise
        return transaction

    def _begin(self, content: Content, place: int, asked: list[Server]) -> tuple[Transaction, bytes]:
        self._numbers += 1
        number = f"{self._start}-r{self._numbers:x}"
        encoded = frame.encode(Read(number, content, place, self._servers.membership))
        domain = self._domain
        gathering = Gathering(
            number, [each.name for each in asked], "first", domain.error_wait, self._clock(),
            answer_timeout=domain.answer_timeout,
        )  # fmt: skip
        transaction = Transaction(number, gathering, "", is_read=True)
        self._under_way.begin(number, transaction)
        for server in asked:
            server.link.send_encoded(encoded)
        return transaction, encoded

    async def _pass_through(self, content: Content, place: int, current: list[Server]) -> Transaction:
        """The head of a stream. Say `stop` when its client has left."""
        turn = (self._numbers + 1) % len(current)
        transaction = None
        for server in current[turn:] + current[:turn]:
            transaction = await self._stream(content, place, server)
            if transaction.error is None:
                break
            self._under_way.forget(transaction.number)
        assert transaction is not None, "somebody is current"
        return transaction

    async def _stream(self, content: Content, place: int, server: Server) -> Transaction:
        self._numbers += 1
        number = f"{self._start}-r{self._numbers:x}"
        gathering = Gathering(
            number, [server.name], "first", 0.0, self._clock(), answer_timeout=STREAM_SECONDS, part_wait=STREAM_SECONDS
        )
        transaction = Transaction(number, gathering, "", is_read=True)
        transaction.streamed_by = server.name
        self._under_way.begin(number, transaction)
        try:
            server.link.send(Read(number, content, place, 0, is_stream=True))
            async with asyncio.timeout(self._domain.answer_timeout):
                await transaction.answered()
        except TimeoutError:
            self.stop(transaction)
            transaction.error = Error(504, "the server has not begun the stream in time")
        except BaseException:
            self.stop(transaction)
            raise
        return transaction

    def stop(self, transaction: Transaction) -> None:
        """Pass a stream through no more."""
        server = self._servers.get(transaction.streamed_by)
        if server is not None and not transaction.is_over:
            server.link.send(Stop(transaction.number))
        self._under_way.forget(transaction.number)

    async def _hedge(self, encoded: bytes, transaction: Transaction, others: list[Server]) -> None:
        """Ask one more each time nobody has answered for a while."""
        while others:
            try:
                async with asyncio.timeout(HEDGE_SECONDS):
                    await transaction.answered()
                return
            except TimeoutError:
                server = others.pop(0)
                transaction.gathering.expect(server.name)
                server.link.send_encoded(encoded)
