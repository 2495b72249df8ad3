"""Pages for browsers: events that wait are shown, not taken, a page at a time, from a place in a backlog on.

    cursor ─▶ the next runs that wait ─▶ heads ─▶ selector ─▶ bodies of what matches ─▶ the cursor behind them

Nothing is kept for a browser. A cursor is a place (slot and index), which stays true whatever is finished, carried or placed
meanwhile. Events are shown in the order in which they were placed, each once; an event finished before the browser comes to it is
not shown. Events in flight, and delayed ones, are shown too. Delivery counts do not change.

A page ends when it has enough events or bytes, or when enough heads were read for it: the answer to a selector that matches
nothing in a million events is many short pages, between which everyone else has a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator, Mapping
from itertools import takewhile

from holdfast.bus.message import BrowseAsked, BrowsedPage, DeliveredSlice
from holdfast.channel.channel import Buffer
from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.backlog.bodies import body_in
from holdfast.destination.directory import Directory
from holdfast.destination.name import DEAD, is_pattern
from holdfast.errors import BatchDamaged, NoSuchPosition
from holdfast.event import position
from holdfast.event.batch import Batch
from holdfast.event.selector.selector import Selector, parse_optional
from holdfast.node.reading.death_notes import EVENTS_A_PAGE, with_deaths
from holdfast.node.reading.head_reader import HeadReader
from holdfast.node.reading.place_pages import SLICE_BYTES, EntrySource, Run, clipped, read_page, runs_from
from holdfast.node.reading.shared_turn import SharedTurn

# Bytes of batches in one page; a batch is at most 1 MiB, so that a page of one slice always fits its frame.
PAGE_BYTES = 256 << 10
# Pages that are read at the same time: this bounds their memory.
PAGES_AT_ONCE = 4
# The most that a selector may cost in one page (see `event.selector`), but for the first batch: some twentieth of a second.
PAGE_COST = 32 << 20
# Runs that are fetched together; runs of one page; events of a run.
RUNS_AT_ONCE = 100
RUNS_MAX = 2_000
EVENTS_A_TURN = 1_000


class BrowsePages:
    def __init__(self, directory: Directory, channel: EntrySource, turn: SharedTurn | None = None) -> None:
        self._directory = directory
        self._turn = turn or SharedTurn()
        self._channel = channel
        self._heads = HeadReader(directory, channel)
        self._room = asyncio.Semaphore(PAGES_AT_ONCE)

    async def page(self, asked: BrowseAsked) -> BrowsedPage:
        """One page of the events that wait from the cursor on. Refused when there is no such destination."""
        selector = parse_optional(asked.selector)
        queue = self._directory.catalog.queue(asked.destination, asked.subscription)
        async with self._room:
            if asked.bytes_max and selector is None and asked.destination != DEAD:
                return await read_page(self._directory, self._channel, queue.backlog, asked)
            events_max = min(asked.events_max, EVENTS_A_PAGE) if asked.destination == DEAD else asked.events_max
            page = _Page(asked._replace(events_max=events_max), selector)
            for _ in range(RUNS_MAX // RUNS_AT_ONCE):
                runs = list(runs_from(queue.backlog, page.cursor, asked.end, RUNS_AT_ONCE, EVENTS_A_TURN))
                if not runs:
                    page.is_end = True
                    break
                wanted = clipped(runs, asked.within)
                if not wanted:
                    page.pass_over(runs[-1])
                    continue
                await self._read_runs(page, queue.backlog, wanted)
                if page.is_full or page.cost >= PAGE_COST:
                    break
            slices = with_deaths(self._directory, asked.destination, page.slices)
            return BrowsedPage(slices, page.cursor, page.is_end)

    async def _read_runs(self, page: _Page, backlog: Backlog, runs: list[Run]) -> None:
        """Take matching events of these runs into the page, or of as many runs as are fetched at once."""
        try:
            if page.selector is None:
                await self._take_all(page, backlog, runs)
                return
            last_read, wanted = await self._matching(page, page.selector, runs)
            if wanted and not await self._take_all(page, backlog, wanted):
                return
            page.pass_over(last_read)
        except NoSuchPosition:
            if all(backlog.needs(position.entry_of(run.first)) for run in runs):
                raise
            # The runs have changed: some were finished meanwhile, or carried elsewhere.

    async def _matching(self, page: _Page, selector: Selector, runs: list[Run]) -> tuple[Run, list[Run]]:
        """The last run whose heads were read, and the runs with events that match. No body is read for this."""
        entries = list(dict.fromkeys(position.entry_of(run.first) for run in runs))
        is_carried = self._directory.locate(entries[0]) != entries[0]  # a batch carried forward is read by itself
        heads = await self._heads.read(entries[:1] if is_carried else entries)
        known = list(takewhile(lambda run: position.entry_of(run.first) in heads, runs))
        count, page.matching = await self._turn.take(_matching(page, selector, known, heads))
        return known[count - 1], [run for run in known[:count] if page.matching.get(run.place)]

    async def _take_all(self, page: _Page, backlog: Backlog, runs: list[Run]) -> bool:
        """Take these runs, or as many as are fetched at once. Whether all of them were taken."""
        entries = [position.entry_of(run.first) for run in runs]
        commands = await self._channel.fetch([self._directory.locate(entry) for entry in entries], PAGE_BYTES)
        for run, entry, found in zip(runs, entries, commands, strict=False):
            self._take(page, backlog, run, entry, found)
            if page.is_full:
                return False
        return len(commands) == len(runs)

    def _take(self, page: _Page, backlog: Backlog, run: Run, entry: int, found: Buffer) -> None:
        try:
            body = body_in(found, entry)
            if not page.asked.within.has_time(body.accepted_us):
                page.pass_over(run)
                return
            destination = body.destination if page.asked.destination == DEAD or is_pattern(page.asked.destination) else ""
            page.take(Batch(body.batch), run, backlog, destination, body.accepted_us)
        except (BatchDamaged, IndexError):  # it is buried when it is to be delivered
            page.pass_over(run)


def _matching(
    page: _Page, selector: Selector, runs: list[Run], heads: Mapping[int, Batch | None]
) -> Generator[int, None, tuple[int, dict[int, list[int]]]]:
    """How many of these runs were asked about, until the page has cost enough, and the indexes that match in each, by its place.
    In steps, each of which says what it cost."""
    matching: dict[int, list[int]] = {}
    for number, run in enumerate(runs, 1):
        batch = heads[position.entry_of(run.first)]
        if batch is not None:
            page.cost += selector.cost(batch, run.events)
            matching[run.place] = yield from selector.select_in_steps(batch, run.indexes)
        if page.cost >= PAGE_COST:
            return number, matching
    return len(runs), matching


class _Page:
    """A page while it fills."""

    def __init__(self, asked: BrowseAsked, selector: Selector | None) -> None:
        self.asked = asked
        self.cursor = asked.cursor
        self.slices: list[DeliveredSlice] = []
        self.is_end = False
        self.selector = selector
        self.matching: dict[int, list[int]] = {}  # of the runs read last: the indexes that match, by place
        self.cost = 0  # of asking the selector
        self._left = asked.events_max
        self._bytes = 0
        self._bytes_max = asked.bytes_max or PAGE_BYTES
        self._slice_bytes = SLICE_BYTES if asked.bytes_max else 0

    @property
    def is_full(self) -> bool:
        return self._left <= 0 or self._bytes >= self._bytes_max

    def take(self, batch: Batch, run: Run, backlog: Backlog, destination: str, accepted_us: int) -> None:
        """Take the events of a run that match, until the page is full."""
        matching = list(run.indexes) if self.selector is None else self.matching[run.place]
        base = run.first - run.indexes[0]
        for low, high in _spans(matching):
            for first, last, deliveries in backlog.deliveries_over(base + low, base + min(high, low + self._left - 1)):
                if self.is_full:
                    return
                events = last - first + 1
                data = batch.slice(first - base, events)
                size = len(data) + self._slice_bytes + len(destination)
                if self._bytes and self._bytes + size > self._bytes_max:
                    self._bytes = self._bytes_max
                    return
                self.slices.append(DeliveredSlice(first, events, deliveries, False, data, destination, (), accepted_us))
                self._left -= events
                self._bytes += size
                self.cursor = run.place + (last - run.first) + 1
            if self.is_full:
                return
        self.pass_over(run)

    def pass_over(self, run: Run) -> None:
        self.cursor = run.place + run.events


def _spans(indexes: list[int]) -> Iterator[tuple[int, int]]:
    """Runs of indexes that follow each other, as (first, last)."""
    begin = 0
    for at in range(1, len(indexes) + 1):
        if at == len(indexes) or indexes[at] != indexes[at - 1] + 1:
            yield indexes[begin], indexes[at - 1]
            begin = at
