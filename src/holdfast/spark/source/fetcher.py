"""The fetcher of an executor: it reads a range straight from the server, ahead of Spark.

    server ─▶ slices, in the background loop ─▶ gathered, a few lots ahead ─▶ this thread makes columns of them meanwhile

Slices may be small, and changing threads for each would cost more than reading it: they are handed over some thousand events at a
time. A range can be read as often as Spark likes: nothing is taken, nothing is held.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Self

from holdfast.client.reading.place_reader import ReadSlice
from holdfast.errors import CheckpointMismatch
from holdfast.event.extent import EVERYTHING, Bounds
from holdfast.event.incarnation import is_restored
from holdfast.node.background import shared_background
from holdfast.spark.server_address import ServerAddress
from holdfast.spark.source.read_target import ReadTarget, reading_of

# About as much as one record batch holds: columns are made of one lot while the next is on its way.
LOT_EVENTS = 10_000
LOT_BYTES = 4 << 20
LOTS_AHEAD = 2

Lot = list[ReadSlice]


def fetched(
    address: ServerAddress,
    target: ReadTarget,
    start: int,
    end: int,
    selector: str | None = None,
    within: Bounds = EVERYTHING,
    incarnation: str = "",
) -> Iterator[ReadSlice]:
    """Read what waits between two places, in the order of placement. The server evaluates selector and bounds.

    CheckpointMismatch, at the end, when the places are of another incarnation than the server's.
    """
    background = shared_background()
    feed = background.run(Feed.begun(_slices(address, target, start, end, selector, within, incarnation)))
    try:
        while lot := background.run(feed.next()):
            yield from lot
    finally:
        background.run(feed.close())


class Feed:
    """A range on its way; all of it happens in the background loop."""

    def __init__(self, slices: AsyncGenerator[ReadSlice, None]) -> None:
        self._lots: asyncio.Queue[Lot | Exception] = asyncio.Queue(LOTS_AHEAD)
        self._filling = asyncio.create_task(self._fill(slices))

    @classmethod
    async def begun(cls, slices: AsyncGenerator[ReadSlice, None]) -> Self:
        return cls(slices)

    async def next(self) -> Lot:
        """Some thousand events; nothing at the end."""
        lot = await self._lots.get()
        if isinstance(lot, Exception):
            raise lot
        return lot

    async def close(self) -> None:
        """Stop reading."""
        self._filling.cancel()
        await asyncio.gather(self._filling, return_exceptions=True)

    async def _fill(self, slices: AsyncGenerator[ReadSlice, None]) -> None:
        try:
            async with aclosing(slices):
                await self._put_all(slices)
        except Exception as problem:  # raised where the lots are taken
            await self._lots.put(problem)

    async def _put_all(self, slices: AsyncGenerator[ReadSlice, None]) -> None:
        lot: Lot = []
        events = size = 0
        async for each in slices:
            lot.append(each)
            events += each.events
            size += len(each.batch.data)
            if events >= LOT_EVENTS or size >= LOT_BYTES:
                await self._lots.put(lot)
                lot, events, size = [], 0, 0
        if lot:
            await self._lots.put(lot)
        await self._lots.put([])


async def _slices(
    address: ServerAddress, target: ReadTarget, start: int, end: int, selector: str | None, within: Bounds, incarnation: str
) -> AsyncGenerator[ReadSlice, None]:
    async with address.client() as client:
        reading = reading_of(client, target)
        async for each in reading.slices(start, end, selector, within):
            yield each
        # At the end, because the server may be restored meanwhile; and never back.
        if is_restored(incarnation, reading.incarnation):
            raise CheckpointMismatch(
                f"{target.destination!r} was read up to another place than was planned: the server was restored from a backup "
                "meanwhile. Nothing of this batch is written; start the query again, which says what to do",
                destination=target.destination,
            )
