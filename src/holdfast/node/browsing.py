"""Looking at what waits without taking it: one page at a time, from a place in a backlog on. Nothing is held for who looks.

    cursor ─▶ the next runs that wait ─▶ heads ─▶ selector ─▶ bodies of what matches ─▶ the cursor behind them

A cursor is a place (slot and index), which stays true whatever is finished, carried or placed meanwhile: events are shown in
the order in which they were placed, each once, and those that are finished before the browser comes to them are not shown. In
flight or delayed, they still wait, and are shown. Delivery counts stay what they are.

A page ends when it has so many events or bytes, or when so much was looked at: the answer to a selector that matches nothing
in a million events is many short pages, between which everyone else has a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from holdfast.bus.message import BrowseAsked, BrowsedPage, DeliveredSlice
from holdfast.channel.channel import Buffer
from holdfast.destination.backlog import Backlog
from holdfast.destination.bodies import body_in
from holdfast.destination.directory import Directory
from holdfast.destination.name import DEAD, is_pattern
from holdfast.errors import BatchDamaged, NoSuchPosition
from holdfast.event import position
from holdfast.event.batch import Batch
from holdfast.event.selector import Selector, parse_optional
from holdfast.node.dead_letters import EVENTS_A_PAGE, with_deaths
from holdfast.node.heads import Heads
from holdfast.node.reading import SLICE_BYTES, Fetching, Run, clipped, read_page, runs_from

# Bytes of batches in one page; a batch is at most 1 MiB, so that a page of one slice always fits its frame.
PAGE_BYTES = 256 << 10
# Pages that are read at the same time: what they hold in memory is bounded by it.
PAGES_AT_ONCE = 4
# Runs that are fetched together, and looked at in one page, and events that are looked at without a turn for everyone else.
RUNS_AT_ONCE = 100
RUNS_MAX = 2_000
EVENTS_A_TURN = 1_000


class Browsing:
    def __init__(self, directory: Directory, channel: Fetching) -> None:
        self._directory = directory
        self._channel = channel
        self._heads = Heads(directory, channel)
        self._room = asyncio.Semaphore(PAGES_AT_ONCE)

    async def page(self, asked: BrowseAsked) -> BrowsedPage:
        """What waits from the cursor on, as far as one page goes. Refused when there is no such destination."""
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
                await self._look(page, queue.backlog, wanted)
                if page.is_full:
                    break
            slices = with_deaths(self._directory, asked.destination, page.slices)
            return BrowsedPage(slices, page.cursor, page.is_end)

    async def _look(self, page: _Page, backlog: Backlog, runs: list[Run]) -> None:
        """Look at these runs, or at as many of them as are fetched at once."""
        try:
            if page.selector is None:
                await self._take_all(page, backlog, runs)
                return
            looked_at, wanted = await self._matching(page.selector, runs)
            if wanted and not await self._take_all(page, backlog, wanted):
                return
            page.pass_over(looked_at)
        except NoSuchPosition:
            if all(backlog.needs(position.entry_of(run.first)) for run in runs):
                raise
            # Finished, or carried elsewhere, meanwhile: the runs are not what they were.

    async def _matching(self, selector: Selector, runs: list[Run]) -> tuple[Run, list[Run]]:
        """The last run whose heads were looked at, and those of which something matches. No body is read for this."""
        heads = await self._heads.read(list(dict.fromkeys(position.entry_of(run.first) for run in runs)))
        known = [run for run in runs if position.entry_of(run.first) in heads]
        wanted, looked_at = [], 0
        for run in known:
            if looked_at >= EVENTS_A_TURN:
                looked_at = 0
                await asyncio.sleep(0)
            looked_at += run.events
            batch = heads[position.entry_of(run.first)]
            if batch is not None and selector.select(batch, run.indexes):
                wanted.append(run)
        return known[-1], wanted

    async def _take_all(self, page: _Page, backlog: Backlog, runs: list[Run]) -> bool:
        """Take these runs, or as many of them as are fetched at once; whether all of them were taken."""
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
        except (BatchDamaged, IndexError):  # whoever receives it buries it
            page.pass_over(run)


class _Page:
    """What was found, as far as it goes."""

    def __init__(self, asked: BrowseAsked, selector: Selector | None) -> None:
        self.asked = asked
        self.cursor = asked.cursor
        self.slices: list[DeliveredSlice] = []
        self.is_end = False
        self.selector = selector
        self._left = asked.events_max
        self._bytes = 0
        self._bytes_max = asked.bytes_max or PAGE_BYTES
        self._slice_bytes = SLICE_BYTES if asked.bytes_max else 0

    @property
    def is_full(self) -> bool:
        return self._left <= 0 or self._bytes >= self._bytes_max

    def take(self, batch: Batch, run: Run, backlog: Backlog, destination: str, accepted_us: int) -> None:
        """Those events of a run that match, until the page is full."""
        matching = list(run.indexes) if self.selector is None else self.selector.select(batch, run.indexes)
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
