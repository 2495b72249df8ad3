"""Places in a backlog, and what waits between them: for a recipient that reads by place and confirms up to a place (ADR 10).

    place = slot × 65,536 + index in the batch

    slot       0     1     2     3     4            places count up for ever and never move: an event placed later always has
    waiting    .     .    97     5     1            a later place, whatever is finished before it
                          ▲            ▲     ▲
                      confirmed       end   newest

A place is always given as that of the next event that waits, or as the newest, where the next event will be placed: so two
places are the same if nothing waits between them. Counting costs a step for each page of some thousand batches, and a search
in the one page that has the place; no event costs anything by itself.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from holdfast.destination.backlog.backlog import Backlog, Span
from holdfast.destination.backlog.runs import bits, runs_of
from holdfast.destination.backlog.slots import Page
from holdfast.destination.state.queue import Queue
from holdfast.destination.state.subscription import Subscription
from holdfast.errors import AlreadyConfirmed, NoSuchPosition, WrongKind
from holdfast.event.position import INDEX_BITS, INDEX_MASK, Ranges, entry_of, index_of


class Extent(NamedTuple):
    """The events that wait from a place on, as far as asked for."""

    confirmed: int  # the place of the oldest event that waits; the newest when none does
    start: int
    end: int
    events: int  # that wait between start and end
    left: int  # that wait from the end on
    newest: int  # where the next event will be placed


def newest_of(backlog: Backlog) -> int:
    return backlog.next_slot << INDEX_BITS


def next_waiting(backlog: Backlog, place: int) -> int:
    """The place of the first event that waits at or after a place; the newest when none does."""
    run = backlog.next_run(place >> INDEX_BITS, place & INDEX_MASK)
    return newest_of(backlog) if run is None else run[0] << INDEX_BITS | index_of(run[1])


def check_place(queue: Queue, place: int) -> None:
    """Refuse to confirm up to a place that this subscription does not have."""
    if place and not isinstance(queue, Subscription):
        raise WrongKind(f"{queue.title} is not confirmed up to a place: others take from it; read a subscription", place=place)
    if place > newest_of(queue.backlog):
        raise NoSuchPosition(
            f"{queue.title}: place {place} is past the newest one, {newest_of(queue.backlog)}; confirm only what was read",
            place=place,
        )


def check_start(queue: Queue, place: int) -> None:
    """Refuse to read from a place before the confirmed one: the events between are gone."""
    if isinstance(queue, Subscription) and place < queue.confirmed_up_to:
        raise AlreadyConfirmed(
            f"{queue.title}: everything before place {queue.confirmed_up_to} was confirmed, and cannot be read from {place} on; "
            "the reader has lost a newer state of its own: begin with what is left (no start), or restore that state",
            place=place,
            confirmed=queue.confirmed_up_to,
        )
    if place > newest_of(queue.backlog):
        raise NoSuchPosition(
            f"{queue.title}: place {place} is past the newest one, {newest_of(queue.backlog)}; it is of another subscription",
            place=place,
        )


def extent_of(backlog: Backlog, start: int | None, events_max: int | None) -> Extent:
    """The extent from the start, or from the oldest event that waits, over at most so many events."""
    places, newest, confirmed = Places(backlog), newest_of(backlog), next_waiting(backlog, 0)
    begin = confirmed if start is None else start
    before = places.before(begin)
    waiting = backlog.waiting - before
    events = waiting if events_max is None else min(waiting, events_max)
    end = places.nth(before + events) if events else begin
    return Extent(confirmed, begin, end, events, waiting - events, newest)


class Places:
    """The places of a backlog, valid until it changes."""

    def __init__(self, backlog: Backlog) -> None:
        self._backlog = backlog
        self._pages = backlog.pages()
        self._before = list(accumulate((page.waiting for page in self._pages), initial=0))
        self._latest: Page | None = None  # the page that was searched last
        self._sums: list[int] = []  # how many wait before each batch of that page; made when it is searched again

    def before(self, place: int) -> int:
        """How many events wait before a place."""
        slot, index = place >> INDEX_BITS, place & INDEX_MASK
        at = bisect_right(self._pages, slot, key=lambda page: page.first_slot) - 1
        if at < 0:
            return 0
        page, offset = self._pages[at], slot - self._pages[at].first_slot
        if offset >= len(page.remaining):
            return self._before[at + 1]
        return self._before[at] + sum(page.remaining[:offset]) + self._before_index(page, offset, index)

    def _before_index(self, page: Page, offset: int, index: int) -> int:
        if not page.remaining[offset] or not index:
            return 0
        count = min(index, page.events[offset])
        finished = self._backlog.finished_in_part().get(page.first_slot + offset, 0)
        return count - (finished & bits(0, count - 1)).bit_count()

    def nth(self, number: int) -> int:
        """The place of the event that has so many waiting before it; the newest when there are no more."""
        if number >= self._before[-1]:
            return newest_of(self._backlog)
        at = bisect_right(self._before, number) - 1
        page, number = self._pages[at], number - self._before[at]
        offset, number = self._offset_of(page, number)
        return page.first_slot + offset << INDEX_BITS | self._index_of(page, offset, number)

    def _offset_of(self, page: Page, number: int) -> tuple[int, int]:
        """The batch of the event that has so many waiting before it in this page, and how many of them are in that batch."""
        if page is not self._latest:
            self._latest, self._sums = page, []
            return _halved(page, number)
        self._sums = self._sums or list(accumulate(page.remaining, initial=0))
        offset = bisect_right(self._sums, number) - 1
        return offset, number - self._sums[offset]

    def _index_of(self, page: Page, offset: int, number: int) -> int:
        finished = self._backlog.finished_in_part().get(page.first_slot + offset, 0)
        if not finished:
            return number
        for low, high in runs_of(bits(0, page.events[offset] - 1) & ~finished):
            if number <= high - low:
                return low + number
            number -= high - low + 1
        raise AssertionError(f"slot {page.first_slot + offset} has fewer events waiting than its page says")


def _halved(page: Page, number: int) -> tuple[int, int]:
    """The same for one question: each half is summed by itself, so that the whole page is read about once."""
    low, high = 0, len(page.remaining)
    while high - low > 1:
        middle = low + high >> 1
        within = sum(page.remaining[low:middle])
        if number < within:
            high = middle
        else:
            low, number = middle, number - within
    return low, number


# --- confirming up to a place --------------------------------------------------------------------------------------------


def waiting_before(backlog: Backlog, place: int, batches_max: int) -> tuple[Ranges, int]:
    """The positions that wait before a place, of at most so many batches, oldest first; and where to go on.

    One range spans all of them if no position between them can belong to somebody else, or come later (`may_span`); otherwise
    each batch has its own.
    """
    spans: list[Span] = []
    run = backlog.next_run(0)
    while run is not None:
        slot, first, events = run
        begin = slot << INDEX_BITS | index_of(first)
        if begin >= place or len(spans) == batches_max:
            return _joined(backlog, spans), min(begin, place)
        events = min(events, place - begin)
        spans.append((first, first + events - 1))
        run = backlog.next_run(slot, index_of(first) + events)
    return _joined(backlog, spans), place


def _joined(backlog: Backlog, spans: list[Span]) -> Ranges:
    if not spans:
        return Ranges()
    first, last = min(spans)[0], max(spans)[1]
    if backlog.may_span(entry_of(first), entry_of(last)):
        return Ranges.of((first, last))
    return Ranges.gather(spans)
