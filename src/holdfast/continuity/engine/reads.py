"""Reads: requests of declared routes, sent to current servers beside the journal.

    all       to every current server at once; the first answer wins
    hedged    to one, and to the next after HEDGE_SECONDS without an answer, or when the one before fails

A read carries the newest place its session saw, by read or write, so that nobody reads what was before their own write; the place
of the topic's head as far as it is known when the session is new (continuity rule 10). A listener that is behind declines.
Answers are compared only where servers were at the same place. The reads of a hedged route take turns among the servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.continuity.domain import Domain, Route
from holdfast.continuity.engine.servers import Server, Servers
from holdfast.continuity.engine.under_way import Transaction, UnderWay
from holdfast.continuity.link.frame import Read
from holdfast.continuity.machines.gathering import Gathering
from holdfast.continuity.request import Content

HEDGE_SECONDS = 0.05


class Reads:
    def __init__(self, domain: Domain, start: str, servers: Servers, under_way: UnderWay, clock: Callable[[], float]) -> None:
        self._domain = domain
        self._start = start
        self._servers = servers
        self._under_way = under_way
        self._clock = clock
        self._numbers = 0

    async def ask(self, route: Route, content: Content, place: int, current: list[Server]) -> Transaction:
        """The head of the first answer. `place`: the newest that the session saw; 0 if it saw none."""
        self._numbers += 1
        number = f"{self._start}-r{self._numbers:x}"
        read = Read(number, content, place or self._servers.newest_place, self._servers.membership)
        domain = self._domain
        gathering = Gathering(
            number, [each.name for each in current], "first", domain.error_wait, self._clock(),
            answer_timeout=domain.answer_timeout,
        )  # fmt: skip
        transaction = Transaction(number, gathering, "", is_read=True)
        self._under_way.begin(number, transaction)
        try:
            if route.send == "all":
                for server in current:
                    server.link.send(read)
                await transaction.answered()
            else:
                await self._hedge(read, transaction, current)
        except BaseException:
            self._under_way.leave(number)
            raise
        return transaction

    async def _hedge(self, read: Read, transaction: Transaction, current: list[Server]) -> None:
        """Ask one after the other until one has answered."""
        turn = self._numbers % len(current)
        for server in current[turn:] + current[:turn]:
            server.link.send(read)
            try:
                async with asyncio.timeout(HEDGE_SECONDS):
                    await transaction.answered()
                    return
            except TimeoutError:
                continue
        await transaction.answered()
