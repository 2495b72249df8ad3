"""The ticker: tells timed rules how late it is, through the very subscriptions that they read.

A tick is an event of the lowest priority, accepted by the server like any other. Whoever receives it has received everything
that was accepted before it: only then is it known that an event is absent. So a program that was away for an hour reads the hour
first.

Through a queue, or `_LOG`, no tick can travel. There the ticker hears its own tick: all that was accepted before it is placed
then. If nothing is left in the source, all of that was read. While events keep coming they tell the time themselves.

A tick is sent when some rule has something due, and not before all readers have heard the one before: an idle program sends none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from holdfast.actions.machines.sharing import TICK_TYPE
from holdfast.actions.names import Names
from holdfast.actions.running.event_view import accepted_us
from holdfast.actions.running.source_reader import SourceReader
from holdfast.client.client import Client
from holdfast.client.receiving.incoming import Incoming
from holdfast.event.event import PropertyValue

# The longest sleep: clocks are set, and machines sleep.
SLEEP_S_MAX = 60.0
# Between two ticks, however much becomes due; and after a source was found that has not been read to its end.
PAUSE_S, UNREAD_PAUSE_S = 0.02, 0.3
# A tick that does not come back in this time was lost with its session: then everything begins anew.
TICK_S_MAX = 30.0


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
        async with self._client.topic(self._names.tick).subscribe(selector=f"life = '{self._client.name}'") as own:
            while True:
                self._changed.clear()
                wake_us = min((wake for each in self._readers if (wake := each.wake_us) is not None), default=None)
                wait_s = SLEEP_S_MAX if wake_us is None else (wake_us - self._now_us()) / 1e6
                if wait_s > 0:
                    await self._changed_within(min(wait_s, SLEEP_S_MAX))
                else:
                    await self._tick(own)

    def _now_us(self) -> int:
        return time.time_ns() // 1_000 + self._beyond_us

    async def _tick(self, own: Incoming) -> None:
        self._number += 1
        sent_us = time.time_ns() // 1_000
        properties: dict[str, PropertyValue] = {"tick": self._number, "life": self._client.name}
        await self._client.topic(self._names.tick).send(type=TICK_TYPE, priority=0, properties=properties)
        tick = await own.next(TICK_S_MAX)
        tick.confirm()
        at_us = accepted_us(tick)
        hearing = [reader for reader in self._readers if reader.source.hears_ticks]
        looked = [
            await reader.look(at_us) for reader in self._readers if not reader.source.hears_ticks and _is_due(reader, at_us)
        ]
        while any(reader.tick < self._number for reader in hearing):
            self._changed.clear()
            await self._changed.wait()
        self._beyond_us = at_us - sent_us
        await asyncio.sleep(PAUSE_S if all(looked) else UNREAD_PAUSE_S)

    async def _changed_within(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass


def _is_due(reader: SourceReader, at_us: int) -> bool:
    wake_us = reader.wake_us
    return wake_us is not None and wake_us <= at_us
