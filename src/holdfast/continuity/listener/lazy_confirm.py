"""Lazy confirms: finished events are confirmed together, after their records are durable, while the next are called.

    finished ─▶ gathered: GATHERED_MAX of them, or PAUSE_SECONDS ─▶ sync of the store, which also reserves the next places
             ─▶ confirm those up to the place that is durable without a gap

An event behind a gap waits for it: so everything that is not confirmed is delivered again in the order of the topic, and a
listener that starts again judges it as it did before (continuity rules 1 and 2).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from heapq import heappop, heappush
from pathlib import Path

from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.continuity.listener.durable.store import Store
from holdfast.errors import HoldfastError

log = logging.getLogger("holdfast.continuity")

GATHERED_MAX = 128
PAUSE_SECONDS = 0.05
# Places that are reserved ahead of the newest one.
RESERVED = 128


class LazyConfirm:
    """Syncs the store of a listener and confirms its events. `newest` tells the newest place that was received, `forgotten_us`
    before which time all keys are forgotten."""

    def __init__(self, store: Store, newest: Callable[[], int], forgotten_us: Callable[[], int]) -> None:
        self._store = store
        self._forgotten_us = forgotten_us
        self._newest = newest
        self._finished: list[tuple[int, int, ReceivedEvent]] = []  # by place
        self._new = 0  # finished since the last sync
        self._count = 0
        self._more = asyncio.Event()
        self._now = asyncio.Event()
        self._turn = asyncio.Lock()

    def add(self, place: int, event: ReceivedEvent) -> None:
        """An event has its record."""
        self._count += 1
        heappush(self._finished, (place, self._count, event))
        self._new += 1
        self._more.set()
        if self._new >= GATHERED_MAX:
            self._now.set()

    @property
    def unconfirmed(self) -> int:
        return len(self._finished)

    async def reserve(self, place: int) -> None:
        """Return when the place is reserved."""
        while place > self._store.reserved_up_to:
            await self.flush()

    async def run(self) -> None:
        """Sync and confirm until cancelled. DiskFailed when the store is of no use any more."""
        while True:
            await self._more.wait()
            try:
                async with asyncio.timeout(PAUSE_SECONDS):
                    await self._now.wait()
            except TimeoutError:
                pass
            await self.flush()

    async def flush(self) -> None:
        """Sync, and confirm what is durable then."""
        async with self._turn:
            self._more.clear()
            self._now.clear()
            self._new = 0
            pending = self._store.sync_begin(self._newest() + RESERVED)
            try:
                await _in_thread(self._store.sync_now, pending)
            finally:
                self._store.sync_end(pending)
            await self._confirm_up_to(pending.mark.finished)
            await self._give_up_bodies()

    async def copy_store(self, folder: Path) -> None:
        """Copy the store, for a snapshot. Nothing is synced, confirmed or given up meanwhile."""
        async with self._turn:
            await _in_thread(self._store.copy_to, folder)

    async def _confirm_up_to(self, place: int) -> None:
        while self._finished and self._finished[0][0] <= place:
            try:
                await heappop(self._finished)[2].confirm()
            except HoldfastError as problem:  # it is delivered again, and confirmed then
                log.info("the event at place %d is not confirmed: %s", place, problem)

    async def _give_up_bodies(self) -> None:
        while (number := self._store.surplus()) is not None:
            await _in_thread(self._store.write_keys, number)
            self._store.drop(number)
        for old in self._store.forgettable(self._forgotten_us()):
            await _in_thread(self._store.forget, old)


async def _in_thread(work: Callable[..., object], *arguments: object) -> None:
    """Do this in a thread. Whoever is cancelled waits until it is done: the next must not write the same files beside it."""
    running = asyncio.get_running_loop().run_in_executor(None, work, *arguments)
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait((running,))
        raise
