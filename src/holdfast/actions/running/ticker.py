"""The ticker: tells timed rules how late it is, through the very subscriptions that they read.

A tick is an event of the lowest priority, accepted by the server like any other. Whoever receives it has received everything
that was accepted before it: only then is it known that an event is absent. So a program that was away for an hour reads the
hour first.

A tick is sent when some rule has something due, and not before all readers have heard the one before: an idle program sends none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from holdfast.actions.machines.sharing import TICK_TYPE
from holdfast.actions.names import Names
from holdfast.actions.running.source_reader import SourceReader
from holdfast.client.client import Client
from holdfast.event.event import PropertyValue

# The longest sleep: clocks are set, and machines sleep.
SLEEP_S_MAX = 60.0
# Between two ticks, however much becomes due.
PAUSE_S = 0.02


class Ticker:
    def __init__(self, client: Client, names: Names) -> None:
        self._client, self._names = client, names
        self._readers: Sequence[SourceReader] = ()
        self._changed = asyncio.Event()
        self._number = 0
        self._beyond_us = 0  # how much later it is at the server than here

    def heard(self) -> None:
        """Machines have changed."""
        self._changed.set()

    async def run(self, readers: Sequence[SourceReader]) -> None:
        self._readers = [reader for reader in readers if reader.source.is_timed]
        while True:
            self._changed.clear()
            wake_us = min((wake for each in self._readers if (wake := each.wake_us) is not None), default=None)
            wait_s = SLEEP_S_MAX if wake_us is None else (wake_us - self._now_us()) / 1e6
            if wait_s > 0:
                await self._changed_within(min(wait_s, SLEEP_S_MAX))
            else:
                await self._tick()

    def _now_us(self) -> int:
        return time.time_ns() // 1_000 + self._beyond_us

    async def _tick(self) -> None:
        self._number += 1
        sent_us = time.time_ns() // 1_000
        properties: dict[str, PropertyValue] = {"tick": self._number, "life": self._client.name}
        await self._client.topic(self._names.tick).send(type=TICK_TYPE, priority=0, properties=properties)
        while any(reader.tick < self._number for reader in self._readers):
            self._changed.clear()
            await self._changed.wait()
        self._beyond_us = max(reader.tick_us for reader in self._readers) - sent_us
        await asyncio.sleep(PAUSE_S)

    async def _changed_within(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass
