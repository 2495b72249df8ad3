"""The expirer: events whose time to live is over go to the dead queue, also where nobody receives.

    expiring ──entries that are due──▶ read heads ──▶ what has expired and nobody holds ──▶ `Dead` (code "expired")

A backlog is swept at most once a second. An event that expires while a recipient holds it is left to the recipient; if it comes
back, it is found when it is to be delivered, or by a later sweep.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator

from holdfast.destination import effect
from holdfast.destination.backlog.expiry_index import ExpiryIndex
from holdfast.destination.delivery.delivery import Delivery
from holdfast.destination.directory import Directory
from holdfast.errors import Closed, HoldfastError
from holdfast.event import position
from holdfast.event.batch import Batch
from holdfast.event.position import INDEX_MASK, Ranges
from holdfast.node import supervision
from holdfast.node.clock import Clock
from holdfast.node.reading.head_reader import HeadReader, expiry_in
from holdfast.node.reading.shared_turn import SharedTurn

log = logging.getLogger("holdfast.expirer")

BacklogKey = effect.BacklogKey
Bury = Callable[[BacklogKey, Ranges, str, str], Awaitable[None]]

SWEEP_MS = 1_000
# Batches whose heads a sweep reads before others have a turn.
BATCHES_A_TURN = 200
# An expired event that is in flight is checked again after this: it may have come back.
HELD_AGAIN_MS = 60_000


class Expirer:
    def __init__(self, directory: Directory, heads: HeadReader, clock: Clock, turn: SharedTurn, bury: Bury) -> None:
        self._turn = turn
        self._directory = directory
        self._heads = heads
        self._clock = clock
        self._bury = bury
        self._expiring: dict[BacklogKey, ExpiryIndex] = {}
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
            self._expiring[key] = ExpiryIndex(backlog)
            self._set_timer(key, delivery)

    def forget(self, key: BacklogKey) -> None:
        """The backlog was deleted."""
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
        timer = self._clock.call_at(at_ms, lambda: self._begin_sweep(key, delivery))
        self._timers[key] = (at_ms, timer)

    def _begin_sweep(self, key: BacklogKey, delivery: Delivery) -> None:
        self._timers.pop(key, None)
        if key in self._expiring and key not in self._sweeps:
            task = supervision.start(self._sweep(key, delivery), f"sweeping {key} for expired events")
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
                await self._expire(key, delivery, expiring, entries)
            except Closed:
                return
            except HoldfastError as problem:
                log.error("events that expire in %s cannot be read, and are tried again: %s", key, problem)
                expiring.heads_read((entry, self._clock.now_ms() + SWEEP_MS) for entry in entries)
                return
            except Exception:  # a fault of ours: the batches that caused it come last
                expiring.heads_read((entry, self._clock.now_ms() + HELD_AGAIN_MS) for entry in entries)
                raise
            await asyncio.sleep(0)  # a turn for everyone else

    async def _expire(self, key: BacklogKey, delivery: Delivery, expiring: ExpiryIndex, entries: list[int]) -> None:
        while entries:
            read = await self._heads.read(entries)
            now_ms = self._clock.now_ms()
            spans: list[tuple[int, int]] = []
            for entry, batch in read.items():
                spans += await self._turn.take(self._expired(entry, batch, now_ms, expiring))
            gone = delivery.expire(Ranges.gather(spans))
            await self._bury(key, gone, "its time to live is over", "expired")
            entries = [entry for entry in entries if entry not in read]

    def _expired(
        self, entry: int, batch: Batch | None, now_ms: int, expiring: ExpiryIndex
    ) -> Generator[int, None, list[tuple[int, int]]]:
        """The waiting events of a batch that have expired. It is noted when the next one does. In steps that say what each
        cost."""
        base = position.of(entry)
        later: list[int] = []
        found: list[tuple[int, int]] = []
        for first, last in expiring.backlog.unfinished(Ranges.of((base, base | INDEX_MASK))) if batch else ():
            for each in range(first, last + 1):
                index = position.index_of(each)
                at_ms = expiry_in(batch, index) if batch else 0
                yield len(batch.head(index)) if batch else 0
                if 0 < at_ms <= now_ms:
                    later.append(now_ms + HELD_AGAIN_MS)
                    found.append((each, each))
                elif at_ms:
                    later.append(at_ms)
        expiring.heads_read([(entry, min(later, default=0))])
        return found

    async def stop(self) -> None:
        for _, timer in self._timers.values():
            timer.cancel()
        tasks = list(self._sweeps.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
