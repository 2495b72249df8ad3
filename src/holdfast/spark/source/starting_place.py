"""The starting place of a new stream: before the first waiting event that lies within bounds of position and time.

The server reads by bounds and names no places, and counts events exactly: halving the stretch that holds the first such event
finds its place.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

from holdfast.client.reading.place_reader import Reading, ReadSlice
from holdfast.event.extent import Bounds


async def starting_place(reading: Reading, within: Bounds) -> int:
    """The place of the oldest event that waits and lies within; the end of all that waits if none does."""
    whole = await reading.extent()
    if not await _has(reading, whole.start, whole.end, within):
        return whole.end
    start, events = whole.start, whole.events
    while events > 1:
        half = await reading.extent(start=start, events_max=events // 2)
        if not half.events:  # all of it expired meanwhile
            break
        if await _has(reading, start, half.end, within):
            events = half.events
        else:
            start, events = half.end, events - half.events
    return start


async def _has(reading: Reading, start: int, end: int, within: Bounds) -> bool:
    slices = cast(AsyncGenerator[ReadSlice, None], reading.slices(start, end, None, within))
    async with aclosing(slices):
        async for each in slices:
            if each.events:
                return True
    return False
