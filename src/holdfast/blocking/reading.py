"""Reading by place, without a loop.

reading = client.reading("alerts.*", "lake", match="glob")
with reading.owner():
    extent = reading.extent(events_max=100_000)
    for slice in reading.slices(extent.start, extent.end):
        ...
    reading.confirm_up_to(extent.end)
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator

from holdfast.blocking.background import Background
from holdfast.client.ownership import Ownership
from holdfast.client.reading import Extent, ReadSlice
from holdfast.client.reading import Reading as AsyncReading
from holdfast.event.bounds import EVERYTHING, Bounds

# Slices that are brought over from the loop's thread at a time.
SLICES_AT_ONCE = 64


class Reading:
    def __init__(self, background: Background, reading: AsyncReading) -> None:
        self.destination = reading.destination
        self.subscription = reading.subscription
        self._background = background
        self._reading = reading

    @contextlib.contextmanager
    def owner(self) -> Iterator[None]:
        """Own the subscription inside `with reading.owner(): …`."""
        ownership = self._background.run(self._owned())
        try:
            yield
        finally:
            self._background.run(ownership.__aexit__(None, None, None))

    async def _owned(self) -> Ownership:
        return await self._reading.owner().__aenter__()

    def extent(
        self, start: int | None = None, events_max: int | None = None, bytes_max: int | None = None, pieces: int = 1
    ) -> Extent:
        """How far a batch goes from a place on, within limits, cut into pieces."""
        return self._background.run(self._reading.extent(start, events_max, bytes_max, pieces))

    def confirm_up_to(self, place: int, *, timeout: float | None = None) -> int:
        """Everything before this place is finished; how many events were not before."""
        return self._background.run(self._reading.confirm_up_to(place, timeout=timeout))

    def more(self, after: int, timeout: float) -> bool:
        """Wait until something waits at or after a place, for so many seconds at most; whether something does."""
        return self._background.run(self._reading.more(after, timeout))

    def slices(self, start: int, end: int, selector: str | None = None, within: Bounds = EVERYTHING) -> Iterator[ReadSlice]:
        """What waits between two places, in whole batches or parts of them."""
        found = self._reading.slices(start, end, selector, within)
        try:
            while some := self._background.run(_next(found)):
                yield from some
        finally:
            self._background.run(_close(found))


async def _next(slices: AsyncIterator[ReadSlice]) -> list[ReadSlice]:
    """The next ones, none at the end."""
    some: list[ReadSlice] = []
    async for each in slices:
        some.append(each)
        if len(some) == SLICES_AT_ONCE:
            break
    return some


async def _close(slices: AsyncIterator[ReadSlice]) -> None:
    """Whoever breaks off reads no further ahead."""
    aclose = getattr(slices, "aclose", None)
    if aclose is not None:
        await aclose()
