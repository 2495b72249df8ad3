"""Pages read by place: the batches that wait between two places, as they lie, up to a MiB a page. Nothing is taken (ADR 10).

    cursor ─▶ the next runs that wait, up to the end ─▶ fetch ─▶ whole batches, not decoded ─▶ the cursor behind them

A run that is a whole batch is sent as it lies in the channel; only a batch that is finished in part, or cut by the end, is
sliced. A page is bounded in bytes, including the heads of its slices, so that it always fits its frame.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from holdfast.bus.message import BrowseAsked, BrowsedPage, DeliveredSlice
from holdfast.channel.channel import Buffer
from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.backlog.bodies import Body, body_in
from holdfast.destination.directory import Directory
from holdfast.destination.name import is_pattern
from holdfast.errors import NoSuchPosition
from holdfast.event import position
from holdfast.event.batch import slice_of
from holdfast.event.extent import EVERYTHING, Bounds
from holdfast.event.position import INDEX_BITS, INDEX_MASK

BYTES_MAX = 1 << 20
# Bytes that a slice takes in the head of a frame at most, beside the name of its destination.
SLICE_BYTES = 48
# Runs that are fetched together: at first as many batches of the usual size as fill a page, then more.
RUNS_AT_FIRST = 16
# Runs that are passed or read for one page: a long stretch outside of the bounds is many empty pages, each in a moment.
RUNS_A_PAGE = 1 << 16
RUNS_AT_ONCE = 256
_PLACE_END = 1 << 62


class EntrySource(Protocol):
    """A channel that entries are fetched from."""

    @property
    def id(self) -> str: ...

    async def fetch(self, numbers: Sequence[int], bytes_max: int | None = None, front: int | None = None) -> list[Buffer]: ...


class Run(NamedTuple):
    """Adjoining events of one batch that wait: their first place and position, and their number."""

    place: int
    first: int
    events: int

    @property
    def indexes(self) -> range:
        start = position.index_of(self.first)
        return range(start, start + self.events)

    @property
    def entry(self) -> int:
        return position.entry_of(self.first)


def runs_from(backlog: Backlog, cursor: int, end: int, runs_max: int, events_max: int = INDEX_MASK) -> Iterator[Run]:
    """The next runs that wait, from a place on and before another (0: all); long ones in pieces of `events_max`."""
    slot, index = cursor >> INDEX_BITS, cursor & INDEX_MASK
    for _ in range(runs_max):
        run = backlog.next_run(slot, index)
        if run is None:
            return
        slot, first, events = run
        index = position.index_of(first)
        place = slot << INDEX_BITS | index
        if place >= (end or _PLACE_END):
            return
        events = min(events, events_max, (end or _PLACE_END) - place)
        yield Run(place, first, events)
        index += events


async def read_page(directory: Directory, channel: EntrySource, backlog: Backlog, asked: BrowseAsked) -> BrowsedPage:
    """One page of the batches that wait between the cursor and the end; an empty one if much has to be passed over first."""
    page, count, passed = _Page(asked), RUNS_AT_FIRST, 0
    while passed < RUNS_A_PAGE and (found_runs := list(runs_from(backlog, page.cursor, asked.end, count))):
        count = min(2 * count, RUNS_AT_ONCE)
        passed += len(found_runs)
        await asyncio.sleep(0)  # fetching from memory does not pause: others have their turn
        runs = clipped(found_runs, asked.within)
        if not runs:
            page.pass_over(found_runs[-1])
            continue
        places = [directory.locate(run.entry) for run in runs]
        try:
            # Three quarters of a page at a time: a batch that crosses the limit would be read twice.
            commands = await channel.fetch(places, max(1, asked.bytes_max * 3 // 4 - page.bytes))
        except NoSuchPosition:
            if all(map(backlog.needs, (run.entry for run in runs))) and places == [directory.locate(run.entry) for run in runs]:
                raise
            continue  # the runs have changed: some were finished meanwhile, or carried elsewhere
        if not all(page.take(run, body_in(found, run.entry)) for run, found in zip(runs, commands, strict=False)):
            break
        if page.bytes >= asked.bytes_max * 3 // 4:
            break
    is_end = next(runs_from(backlog, page.cursor, asked.end, 1), None) is None
    return BrowsedPage(page.slices, page.cursor, is_end)


def clipped(runs: Iterable[Run], bounds: Bounds) -> list[Run]:
    """These runs, as far as they lie within the bounds of positions."""
    if bounds is EVERYTHING or bounds == EVERYTHING:
        return list(runs)
    found = []
    for run in runs:
        first, events = bounds.clip(run.first, run.events)
        if events > 0:
            found.append(Run(run.place + first - run.first, first, events))
    return found


class _Page:
    """A page while it fills."""

    def __init__(self, asked: BrowseAsked) -> None:
        self.cursor = asked.cursor
        self.slices: list[DeliveredSlice] = []
        self.bytes = 0
        self._bytes_max = asked.bytes_max
        self._left = asked.events_max
        self._says_where = is_pattern(asked.destination)
        self._within = asked.within

    def take(self, run: Run, body: Body) -> bool:
        """Take a run, or as much of it as may be. Whether there is room for more."""
        if not self._within.has_time(body.accepted_us):
            self.pass_over(run)
            return True
        events = min(run.events, self._left)
        data = slice_of(body.batch, position.index_of(run.first), events)
        destination = body.destination if self._says_where else ""
        size = len(data) + SLICE_BYTES + len(destination)
        if self.slices and self.bytes + size > self._bytes_max:
            return False
        self.slices.append(DeliveredSlice(run.first, events, 0, False, data, destination, (), body.accepted_us))
        self.bytes += size
        self._left -= events
        self.cursor = run.place + events
        return self._left > 0

    def pass_over(self, run: Run) -> None:
        self.cursor = run.place + run.events
