"""Load on a cluster: producers, recipients, a pattern and transactions, over clients of several nodes, and its account.

    producers ──▶ queue `orders` ──────────▶ two recipients
              ──▶ topics `news.*` ─────────▶ a subscription by pattern
              ──▶ queue `work` ──▶ mover ──▶ queue `done` ──▶ a recipient      each event in a transaction

The mover numbers what it moves. An event that comes to it again, because a transaction was aborted or a client had it whose
program did not take it, may come behind others. So the events in `done` are in the order of the mover's numbers, not in that of
the producers.

One mover is slower than the producers, most of all where a transaction is over two message managers. They wait for it: so what is
left at the end of a long run is little, and a load that does not end is stuck.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import holdfast
from holdfast.errors import OutcomeUnknown, TransactionAborted, Unavailable
from holdfast.simulation.checkers.account import Account
from tests.waiting import until

QUEUE, PATTERN, WORK, MOVED, MOVES = "orders", "news.*", "work", "done", "moves"
AUDIENCES = (QUEUE, PATTERN, MOVED)
SEND_TIMEOUT_S = 60.0
GOES_ON_S = 60.0
# So many events may wait for the mover.
UNMOVED_MAX = 200


class ClusterLoad:
    def __init__(self, urls: Sequence[str], pause_s: float = 0.01) -> None:
        """A client for each URL. Each producer waits so long before each event."""
        self.account = Account(*AUDIENCES, WORK, MOVES)
        self.seen: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()  # sends that failed, by code: they were promised to nobody
        self.aborted: Counter[str] = Counter()  # transactions, by reason
        self._places: dict[tuple[str, int], set[int]] = defaultdict(set)  # where each moved event is in its new queue
        self._urls = urls
        self._pause_s = pause_s
        self._sent_to_work = 0  # accepted
        self._is_ending = False
        self._working: list[asyncio.Task[None]] = []
        self._producers: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ClusterLoad]:
        one, two = [holdfast.connect(url, timeout=SEND_TIMEOUT_S) for url in (self._urls[0], self._urls[-1])]
        async with one, two:
            self._working = [
                asyncio.create_task(work)
                for work in (
                    self._receive(QUEUE, one.queue(QUEUE).receive(), "one"),
                    self._receive(QUEUE, two.queue(QUEUE).receive(), "two"),
                    self._receive(PATTERN, two.subscribe(PATTERN, name="all"), "two"),
                    self._receive(MOVED, one.queue(MOVED).receive(), "one"),
                    self._move(two),
                )
            ]
            # What is sent before a subscription is there is not meant for it.
            await until(lambda: _is_subscribed(one), "the pattern is subscribed to")
            self._producers = [
                asyncio.create_task(self._send(client, name, audience))
                for client, name in ((one, "one"), (two, "two"))
                for audience in AUDIENCES
            ]
            try:
                yield self
            finally:
                for task in (*self._producers, *self._working):
                    task.cancel()
                await asyncio.gather(*self._producers, *self._working, return_exceptions=True)

    async def _send(self, client: holdfast.Client, name: str, audience: str) -> None:
        targets = {QUEUE: client.queue(QUEUE), PATTERN: client.topic(f"news.{name}"), MOVED: client.queue(WORK)}
        producer, number = f"{name}-{audience}", 0
        while not self._is_ending:
            await asyncio.sleep(self._pause_s)
            if audience == MOVED and self._sent_to_work - len(self._places) >= UNMOVED_MAX:
                continue
            number += 1
            self.account.sent(producer, number)
            try:
                await targets[audience].send([producer, number], timeout=SEND_TIMEOUT_S)
            except (OutcomeUnknown, Unavailable) as problem:
                self.refused[problem.code] += 1
            else:
                self._sent_to_work += audience == MOVED
                self.account.accepted(producer, number, audience, *([WORK] if audience == MOVED else []))

    async def _receive(self, audience: str, receiver: holdfast.Incoming, recipient: str) -> None:
        async with receiver as incoming:
            async for event in incoming:
                producer, number, *moved = event.data
                is_late = event.redelivered or bool(moved)
                self.account.delivered(audience, recipient, producer, number, is_redelivered=is_late)
                for move in moved:
                    self.account.delivered(MOVES, recipient, "mover", move, is_redelivered=event.redelivered)
                    self._places[producer, number].add(event.position)
                self.seen[audience] += 1
                await event.confirm()
                self.account.settled(audience, producer, number)

    async def _move(self, client: holdfast.Client) -> None:
        move = 0
        async with client.queue(WORK).receive() as incoming:
            async for event in incoming:
                move += 1
                self.account.sent("mover", move)
                self.account.delivered(WORK, "mover", *event.data, is_redelivered=event.redelivered)
                try:
                    async with client.transaction() as tx:
                        await tx.queue(MOVED).send([*event.data, move])
                        await tx.confirm(event)
                except TransactionAborted as problem:  # then the event comes again
                    self.aborted[problem.sentence] += 1
                else:
                    self.account.settled(WORK, *event.data)
                    self.account.accepted("mover", move, MOVES)

    async def goes_on(self, why: str, patience_s: float = GOES_ON_S) -> None:
        """Until every kind of event is sent and received again."""
        before = Counter(self.seen)
        await until(lambda: self._has_gone_on(before) or self._failed(), f"events flow {why}", patience_s)

    def _has_gone_on(self, before: Counter[str]) -> bool:
        return all(self.seen[audience] > before[audience] + 10 for audience in AUDIENCES)

    def _failed(self) -> bool:
        """Raise what ended a producer or recipient."""
        for task in (*self._producers, *self._working):
            if task.done():
                task.result()
        return False

    def _is_less_missing(self, than: int) -> bool:
        return self._failed() or self.account.missing() < than

    async def ended(self) -> None:
        """Send no more, receive everything that was accepted, and hold it against the promises. However much that is: it fails
        when nothing of it comes for a minute."""
        self._is_ending = True
        await asyncio.gather(*self._producers)
        while missing := self.account.missing():
            what = f"one of {missing} accepted events is received that are missing, such as {self.account.verdict().lost[:3]}"
            await until(partial(self._is_less_missing, missing), what, poll_s=0.05)
        print(f"refused: {dict(self.refused)}, transactions aborted: {dict(self.aborted)}; {self.account.verdict()}")
        assert self.account.verdict().is_kept, self.account.verdict()
        assert all(len(places) == 1 for places in self._places.values()), "a transaction happened twice"


async def _is_subscribed(client: holdfast.Client) -> bool:
    return any(row["name"] == "all" for row in await client.subscriptions(PATTERN))
