"""Reading without taking, and without a loop: browsers, and reading by place.

with queue.browse() as events:
    for event in events: …

reading = client.reading("alerts.*", "lake", match="glob")
with reading.owner():
    extent = reading.extent(events_max=100_000)
    for slice in reading.slices(extent.start, extent.end): …
    reading.confirm_up_to(extent.end)
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Self

from holdfast.blocking.event_stream import EventStream
from holdfast.blocking.hand_over import waiting_for
from holdfast.client.reading.browser import BrowsedEvent
from holdfast.client.reading.browser import Browser as AsyncBrowser
from holdfast.client.reading.place_reader import Reading as AsyncReading
from holdfast.client.reading.place_reader import ReadSlice
from holdfast.client.reading.subscription_ownership import Ownership
from holdfast.event.extent import EVERYTHING, Bounds
from holdfast.node.background import Background

# Slices that are brought over from the loop's thread at a time.
SLICES_AT_ONCE = 64


class Browser:
    """Events that wait, looked at without taking them."""

    def __init__(self, background: Background, browser: AsyncBrowser) -> None:
        self._background = background
        self._twin = browser

    def __enter__(self) -> Self:
        self._background.run(self._twin.__aenter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._background.run(self._twin.__aexit__(kind, error, trace))

    def __iter__(self) -> Iterator[BrowsedEvent]:
        while (event := self.next()) is not None:
            yield event

    def next(self) -> BrowsedEvent | None:
        """The next event; None at the end."""
        waiting = self._twin.take()
        return waiting if waiting is not None else self._background.run(self._twin.next())


class Reading:
    """A subscription, or a queue, read by place."""

    def __init__(self, background: Background, reading: AsyncReading) -> None:
        self.destination = reading.destination
        self.subscription = reading.subscription
        self._background = background
        self._twin = reading

    @contextlib.contextmanager
    def owner(self) -> Iterator[None]:
        """Own the subscription inside `with reading.owner(): …`."""
        ownership = self._background.run(self._owned())
        try:
            yield
        finally:
            self._background.run(ownership.__aexit__(None, None, None))

    async def _owned(self) -> Ownership:
        return await self._twin.owner().__aenter__()

    extent = waiting_for(AsyncReading.extent)
    confirm_up_to = waiting_for(AsyncReading.confirm_up_to)
    more = waiting_for(AsyncReading.more)

    def open_stream(self, slice: ReadSlice, index: int = 0) -> EventStream:
        """Read the data of an event of a slice piece by piece, large or not: `with reading.open_stream(slice) as stream: …`."""
        return EventStream(self._background, self._twin.open_stream(slice, index))

    def slices(self, start: int, end: int, selector: str | None = None, within: Bounds = EVERYTHING) -> Iterator[ReadSlice]:
        """What waits between two places, in whole batches or parts of them."""
        found = self._twin.slices(start, end, selector, within)
        try:
            while some := self._background.run(_next(found)):
                yield from some
        finally:
            self._background.run(_close(found))


async def _next(slices: AsyncIterator[ReadSlice]) -> list[ReadSlice]:
    """The next slices; none at the end."""
    some: list[ReadSlice] = []
    async for each in slices:
        some.append(each)
        if len(some) == SLICES_AT_ONCE:
            break
    return some


async def _close(slices: AsyncIterator[ReadSlice]) -> None:
    """Stop reading ahead for a caller that broke off."""
    aclose = getattr(slices, "aclose", None)
    if aclose is not None:
        await aclose()
