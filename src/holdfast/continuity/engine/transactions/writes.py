"""Writes: requests that go through the topic, one event each, to all servers of the domain.

    made ──▶ session, sequence, key, digest, transaction number ──▶ topic ──▶ receipt: accepted, and so done
                                                                      └─────▶ parts from the listeners ──▶ gathering

    begin    sends it within the call, and calls `watcher` when it is answered. None if something must be waited for first: the
             session is to be opened, its request before has no receipt yet, the body is streamed
    write    the same for a task that waits

A session's next request is sent after the receipt of the one before (continuity rule 16). A request that was certainly not
appended is NotTaken; of any other its client hears by its answer, or 504 (continuity rule 15).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from functools import partial

from holdfast.client.destination import Topic
from holdfast.client.receipt import Receipt
from holdfast.continuity import request
from holdfast.continuity.domain import Domain
from holdfast.continuity.engine.servers import Server, Servers
from holdfast.continuity.engine.transactions.sessions import Session, Sessions
from holdfast.continuity.engine.transactions.under_way import Transaction, UnderWay
from holdfast.continuity.errors import NotAnswered, NotTaken
from holdfast.continuity.machines.gathering import Gathering
from holdfast.continuity.request import BODY_MAX, Content, Headers, Request
from holdfast.errors import HoldfastError, OutcomeUnknown

log = logging.getLogger("holdfast.continuity")

SESSION_COPIES = 2
SESSION_SECONDS = 5.0


class Writes:
    def __init__(
        self,
        domain: Domain,
        name: str,
        start: str,
        topic: Topic,
        servers: Servers,
        sessions: Sessions,
        under_way: UnderWay,
        expected: Callable[[], list[Server]],
        figures: dict[str, int],
        clock: Callable[[], float],
    ) -> None:
        """`name` and `start`: of the engine. `expected` gives the servers that are to answer, or raises NotTaken."""
        self._domain = domain
        self._name = name
        self._start = start
        self._topic = topic
        self._servers = servers
        self._sessions = sessions
        self._under_way = under_way
        self._expected = expected
        self._figures = figures
        self._clock = clock
        self._credentials = frozenset(name.lower().encode() for name in domain.credentials)
        self._numbers = 0

    # --- without waiting ---------------------------------------------------------------------------------------------

    def begin(
        self, method: str, target: str, headers: Headers, body: bytes, session: str, key: str, number: str
    ) -> Transaction | None:  # fmt: skip
        """Send a request now; None, with nothing done, if something must be waited for first. NotTaken if nobody can answer."""
        user = self._sessions.get(session) if session else None
        if (user is not None and not (user.is_open and user.may_send)) or len(body) > BODY_MAX:
            return None
        transaction, asked = self._begin(method, target, headers, body, session, key, number)
        try:
            receipt = self._topic.begin_send(request.data_of(asked), **request.fields_of(asked))
        except HoldfastError as problem:
            self._under_way.forget(asked.transaction)
            raise self._not_appended(problem) from problem
        if user is not None:
            user.sending = receipt
        receipt.add_done_callback(partial(self._receipted, transaction))
        return transaction

    def _receipted(self, transaction: Transaction, receipt: asyncio.Future[Receipt]) -> None:
        """Heed a receipt that no task waits for."""
        problem = receipt.exception() if not receipt.cancelled() else None
        if isinstance(problem, OutcomeUnknown):
            log.warning("request %s may be in the topic: %s", transaction.number, problem)
        elif isinstance(problem, HoldfastError):
            self._under_way.refuse(transaction, self._not_appended(problem))

    # --- in a task ---------------------------------------------------------------------------------------------------

    async def write(
        self, method: str, target: str, headers: Headers, body: bytes, session: str, key: str, number: str
    ) -> Transaction:  # fmt: skip
        """Wait for the head of the first answer. NotTaken or NotAnswered if there is none."""
        transaction, asked = self._begin(method, target, headers, body, session, key, number)
        try:
            await self._send(asked)
            await transaction.answered()
        except NotTaken:
            self._under_way.forget(asked.transaction)
            raise
        except BaseException:
            self._under_way.leave(asked.transaction)
            raise
        return self.answered(transaction)

    async def _send(self, asked: Request) -> None:
        async with self._sessions.turn(asked.session):
            try:
                await self._open_session(asked.session)
                if len(asked.content.body) > BODY_MAX:
                    await self._topic.send_stream(asked.content.body, **request.fields_of_large(asked))
                else:
                    await self._topic.try_send(request.data_of(asked), **request.fields_of(asked))
            except OutcomeUnknown as problem:
                log.warning("request %s may be in the topic: %s", asked.transaction, problem)
            except NotTaken:
                self._figures["refused"] += 1
                raise
            except HoldfastError as problem:
                raise self._not_appended(problem) from problem

    async def _open_session(self, name: str) -> None:
        """Before the first request of a session, two listeners, or all that are current, have it durably (C3)."""
        session: Session | None = self._sessions.get(name) if name else None
        if session is None or session.is_open:
            return
        needed = min(SESSION_COPIES, len(self._servers.current()))
        await self._topic.try_send(
            {"session": name, "engine": self._name, "start": self._start}, type=request.SESSION, properties={"session": name}
        )
        try:
            await self._sessions.wait_for(session, needed, SESSION_SECONDS)
        except TimeoutError:
            raise NotTaken(f"{len(session.confirmed)} of {needed} listeners have queued the session; repeat it later") from None

    # --- both --------------------------------------------------------------------------------------------------------

    def _begin(
        self, method: str, target: str, headers: Headers, body: bytes, session: str, key: str, number: str
    ) -> tuple[Transaction, Request]:  # fmt: skip
        expected = [server.name for server in self._expected()]
        asked = self._make(method, target, headers, body, session, key, number)
        domain = self._domain
        gathering = Gathering(
            asked.transaction, expected, domain.answer, domain.error_wait, self._clock(),
            answer_timeout=domain.answer_timeout, shadows=self._servers.shadows(),
        )  # fmt: skip
        transaction = Transaction(asked.transaction, gathering, asked.key)
        self._under_way.begin(asked.transaction, transaction)
        return transaction, asked

    def _make(
        self, method: str, target: str, headers: Headers, body: bytes, session: str, key: str, number: str
    ) -> Request:  # fmt: skip
        self._numbers += 1
        self._figures["requests"] += 1
        digest = request.digest_of(method, target, headers, body, self._credentials)
        return Request(
            transaction=number or f"{self._start}-{self._numbers:x}", domain=self._domain.name, session=session,
            sequence=self._sessions.next(session), key=key or secrets.token_urlsafe(16), digest=digest, engine=self._name,
            start=self._start, content=Content(method, target, headers, body, time.time_ns() // 1000, secrets.randbits(63)),
        )  # fmt: skip

    def _not_appended(self, problem: HoldfastError) -> NotTaken:
        self._figures["refused"] += 1
        return NotTaken(f"the request was not appended: {problem}", retry_after=1)

    def answered(self, transaction: Transaction) -> Transaction:
        """A write that was answered. NotTaken or NotAnswered if it was not."""
        if transaction.refusal is not None:
            raise transaction.refusal
        if transaction.error is not None:
            self._figures["not_answered"] += 1
            self._under_way.leave(transaction.number)
            raise NotAnswered(transaction.error.status, transaction.error.reason, transaction.number, transaction.key)
        return transaction
