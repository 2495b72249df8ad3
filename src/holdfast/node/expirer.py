"""The expirer: events whose time to live is over go to the dead queue, also where nobody receives.

    expiring ──entries that are due──▶ read heads ──▶ what has expired and nobody holds ──▶ `Dead` (code "expired")

A sweep comes at most once a second to a backlog, and looks at so many batches; what is left, the next one does. What a recipient
holds while it expires is left to it; should it come back, it is found when it is handed out, or by a later sweep.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator

from holdfast.destination import effect
from holdfast.destination.delivery import Delivery
from holdfast.destination.directory import Directory
from holdfast.destination.expiring import Expiring
from holdfast.errors import Closed, HoldfastError
from holdfast.event import position
from holdfast.event.batch import Batch
from holdfast.event.position import INDEX_MASK, Ranges
from holdfast.node.clock import Clock
from holdfast.node.heads import Heads, expiry_in

log = logging.getLogger("holdfast.expirer")

BacklogKey = effect.BacklogKey
Bury = Callable[[BacklogKey, Ranges, str, str], Awaitable[None]]

SWEEP_MS = 1_000
# Batches a sweep looks at before it leaves the loop to others.
BATCHES_A_TURN = 200
# Expired and in flight: whether it came back is looked at after this.
HELD_AGAIN_MS = 60_000


class Expirer:
    def __init__(self, directory: Directory, heads: Heads, clock: Clock, bury: Bury) -> None:
        self.expired = 0
        self._directory = directory
        self._heads = heads
        self._clock = clock
        self._bury = bury
        self._expiring: dict[BacklogKey, Expiring] = {}
        self._timers: dict[BacklogKey, tuple[int, asyncio.TimerHandle]] = {}
        self._sweeps: dict[BacklogKey, asyncio.Task[None]] = {}
        self._swept_ms: dict[BacklogKey, int] = {}

    def placed(self, key: BacklogKey, first: int, delivery: Delivery) -> None:
        """A batch was placed in a backlog in which events expire."""
        expiring = self._expiring.get(key)
        if expiring is None:
            self.begin(key, delivery)
        else:
            expiring.placed(first)
            self._set_timer(key, delivery)

    def begin(self, key: BacklogKey, delivery: Delivery) -> None:
        """Watch a backlog in which events expire."""
        backlog = self._directory.backlog(key)
        if backlog.has_expiries:
            self._expiring[key] = Expiring(backlog)
            self._set_timer(key, delivery)

    def forget(self, key: BacklogKey) -> None:
        """The backlog is gone."""
        self._expiring.pop(key, None)
        self._swept_ms.pop(key, None)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer[1].cancel()

    def _set_timer(self, key: BacklogKey, delivery: Delivery) -> None:
        at_ms = self._expiring[key].wake_at_ms
        if at_ms is None or key in self._sweeps:
            return
        at_ms = max(at_ms, self._swept_ms.get(key, 0) + SWEEP_MS)
        known = self._timers.get(key)
        if known is not None:
            if known[0] <= at_ms:
                return
            known[1].cancel()
        timer = self._clock.call_later(at_ms - self._clock.now_ms(), lambda: self._ring(key, delivery))
        self._timers[key] = (at_ms, timer)

    def _ring(self, key: BacklogKey, delivery: Delivery) -> None:
        self._timers.pop(key, None)
        if key in self._expiring and key not in self._sweeps:
            task = asyncio.create_task(self._sweep(key, delivery), name=f"expires in {key}")
            self._sweeps[key] = task
            task.add_done_callback(lambda _: self._swept(key, delivery))

    def _swept(self, key: BacklogKey, delivery: Delivery) -> None:
        del self._sweeps[key]
        if key in self._expiring:
            self._swept_ms[key] = self._clock.now_ms()
            self._set_timer(key, delivery)

    async def _sweep(self, key: BacklogKey, delivery: Delivery) -> None:
        expiring = self._expiring[key]
        now_ms = self._clock.now_ms()
        while entries := expiring.due(now_ms, BATCHES_A_TURN):
            try:
                await self._look_at(key, delivery, expiring, entries)
            except Closed:
                return
            except HoldfastError as problem:
                log.error("what expires in %s cannot be looked at, and is tried again: %s", key, problem)
                expiring.looked_at((entry, self._clock.now_ms() + SWEEP_MS) for entry in entries)
                return
            await asyncio.sleep(0)  # a turn for everyone else

    async def _look_at(self, key: BacklogKey, delivery: Delivery, expiring: Expiring, entries: list[int]) -> None:
        while entries:
            read = await self._heads.read(entries)
            now_ms = self._clock.now_ms()
            spans: list[tuple[int, int]] = []
            for entry, batch in read.items():
                spans += self._expired(entry, batch, now_ms, expiring)
            gone = delivery.expire(Ranges.gather(spans))
            self.expired += sum(last - first + 1 for first, last in gone)
            await self._bury(key, gone, "its time to live is over", "expired")
            entries = [entry for entry in entries if entry not in read]

    def _expired(self, entry: int, batch: Batch | None, now_ms: int, expiring: Expiring) -> Iterator[tuple[int, int]]:
        """The events of a batch that wait and have expired; and when the next does is noted."""
        base = position.of(entry)
        later: list[int] = []
        for first, last in expiring.backlog.unfinished(Ranges.of((base, base | INDEX_MASK))) if batch else ():
            for each in range(first, last + 1):
                at_ms = expiry_in(batch, position.index_of(each)) if batch else 0
                if 0 < at_ms <= now_ms:
                    later.append(now_ms + HELD_AGAIN_MS)
                    yield each, each
                elif at_ms:
                    later.append(at_ms)
        expiring.looked_at([(entry, min(later, default=0))])

    async def stop(self) -> None:
        for _, timer in self._timers.values():
            timer.cancel()
        tasks = list(self._sweeps.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
