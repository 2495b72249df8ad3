"""A view: what the receivers of one selector see of a backlog, as far as the heads of its events were read.

    scans ─▶ head reads ─(the shell reads heads)─▶ found: what matches, and its group ─▶ groups ─▶ whose turn it is

Receivers with the same selector share one view. Receivers without one share the view of batches that have groups, and take
everything else straight from its lane (see `handout`). A view reads ahead only while one of its receivers has credit, and at
most MATCHES_MAX events that match: past that, groups whose receivers have no credit do hold up the others of the same view.

Events that come back are read next, wherever the scan is. Until the answer is there, nothing else goes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.batch_traits import LANES, is_grouped, priority_of
from holdfast.destination.delivery.credit import Receiver
from holdfast.destination.delivery.delay_index import DelayIndex
from holdfast.destination.delivery.groups import Groups
from holdfast.destination.delivery.returned_heads import URGENT, ReturnedHeads
from holdfast.event.position import INDEX_BITS, INDEX_MASK

# Events that match and wait for a receiver: enough that other groups flow while one receiver is slow, and a bound.
MATCHES_MAX = 2_000
# Events of one read: some tenth of a millisecond, so that the shell can pause between reads.
READ_EVENTS_MAX = 256
# Reads that are asked and not answered.
READS_MAX = 512


class HeadRead(NamedTuple):
    """Heads to be read: events first .. last of one batch, for receivers with this selector ("": all, for their groups)."""

    selector: str
    first: int
    last: int


class Found(NamedTuple):
    """Events that match, and have this group (None: no group)."""

    first: int
    last: int
    group: str | None


class _Asked(NamedTuple):
    priority: int
    place: int
    is_again: bool  # it came back: the scan has passed it, or will read it once more


class Scan:
    """How far a view has read one lane."""

    __slots__ = ("_backlog", "cursor", "delays", "is_at_end", "lane", "priority")

    def __init__(self, lane: int, backlog: Backlog) -> None:
        self.lane = lane
        self.priority = priority_of(lane)
        self.cursor = (0, 0)
        self.is_at_end = False
        self.delays = DelayIndex()
        self._backlog = backlog

    @property
    def place(self) -> int:
        return self.cursor[0] << INDEX_BITS | self.cursor[1]

    def next(self) -> tuple[int, int] | None:
        """The next positions (first, last) of one batch that wait; the scan is moved to them. None at the end."""
        if self.is_at_end:
            return None
        run = self._backlog.next_run_of(self.lane, *self.cursor)
        if run is None:
            self.cursor = (self._backlog.next_slot, 0)
            self.is_at_end = True
            return None
        self.cursor = (run[0], run[1] & INDEX_MASK)
        return run[1], run[1] + run[2] - 1

    def go_past(self, last: int) -> None:
        self.cursor = (self.cursor[0], (last & INDEX_MASK) + 1)


# (first, last, scan) -> the runs whose heads are to be read now; those that are not due are noted with the scan.
Readable = Callable[[int, int, Scan], list[tuple[int, int]]]


class View:
    def __init__(self, selector: str, backlog: Backlog) -> None:
        self.selector = selector
        self.receivers: dict[Receiver, None] = {}
        self.groups = Groups()
        self._backlog = backlog
        self._scans: dict[int, Scan] = {}
        self._returned = ReturnedHeads(backlog.place_of)
        self._asked: dict[HeadRead, _Asked] = {}
        self._asked_again = 0
        self._asked_events = 0
        self._asked_of: dict[int, dict[HeadRead, None]] = {}  # by priority, in the order of their places

    # --- its receivers -----------------------------------------------------------------------------------------------

    def leave(self, receiver: Receiver) -> None:
        self.receivers.pop(receiver, None)
        self.groups.leave(receiver)

    @property
    def credit(self) -> int:
        """The most events that one of its receivers may be given."""
        return max((receiver.events for receiver in self.receivers if receiver.has_credit), default=0)

    def is_full(self, priority: int) -> bool:
        """Enough events of this priority, and of higher ones, are known to wait, or will be when the reads are answered.

        With groups, an event that waits may be for another receiver: then only MATCHES_MAX is enough.
        """
        has_groups = self._backlog.lanes & _GROUPED_LANES
        known = self.groups.count(priority) + (0 if self.selector else self._asked_events)
        return known >= (MATCHES_MAX if has_groups else min(MATCHES_MAX, self.credit))

    # --- what is read ------------------------------------------------------------------------------------------------

    def covers(self, lane: int) -> bool:
        return bool(self.selector) or is_grouped(lane)

    def scans(self) -> list[Scan]:
        """One for each lane that is there, highest priority first."""
        for lane in range(LANES):
            if self._backlog.lanes >> lane & 1 and lane not in self._scans and self.covers(lane):
                self._scans[lane] = Scan(lane, self._backlog)
        return sorted(self._scans.values(), key=lambda scan: (-scan.priority, scan.place))

    def placed(self) -> None:
        for scan in self._scans.values():
            scan.is_at_end = False

    def came_back(self, lane: int, first: int, last: int) -> None:
        """These wait again, and go before what is new, even if the scan has not come to them yet."""
        if self.covers(lane):
            self._returned.put(-priority_of(lane), first, last)

    def read_first(self, first: int, last: int) -> None:
        """Read these before anything else goes out: a receiver came and holds them already."""
        self._returned.put(URGENT, first, last)

    def finish(self, first: int, last: int) -> None:
        self.groups.finish(first, last)
        self._returned.forget(first, last)

    def head_reads(self, count: int, readable: Readable, is_free: Callable[[int, int], list[tuple[int, int]]]) -> list[HeadRead]:
        """The heads to be read next, for receivers that have credit."""
        made: list[HeadRead] = []
        if not self.credit and not self._returned.is_urgent:
            return made
        room = min(count, READS_MAX - len(self._asked))
        while self._returned and len(made) < room:
            descent, place, parts = self._returned.take()
            made += [
                self._ask(begin, end, _Asked(-descent, place, True))
                for first, last in parts
                for low, high in is_free(first, last)
                for begin, end in _pieces(low, high)
            ]
        while len(made) < room and (found := self._next_scanned(readable)) is not None:
            made.extend(found)
        return made

    def _next_scanned(self, readable: Readable) -> list[HeadRead] | None:
        """The reads of one batch, by the scan whose turn it is; None when all are at their end."""
        for scan in self._in_turn():
            run = scan.next()
            if run is not None:
                place = scan.place
                runs = readable(*run, scan)
                scan.go_past(run[1])
                return [
                    self._ask(begin, end, _Asked(scan.priority, place + begin - run[0], False))
                    for low, high in runs
                    for begin, end in _pieces(low, high)
                ]
        return None

    def _in_turn(self) -> Iterator[Scan]:
        """Scans with something to read, and room for it: the highest priority first, and within it the first place."""
        ready = [scan for scan in self.scans() if not self.is_full(scan.priority) and scan.next() is not None]
        return iter(sorted(ready, key=lambda scan: (-scan.priority, scan.place)))

    def _ask(self, first: int, last: int, asked: _Asked) -> HeadRead:
        head_read = HeadRead(self.selector, first, last)
        self.answered(head_read)
        self._asked[head_read] = asked
        self._asked_again += asked.is_again
        self._asked_events += last - first + 1
        if not asked.is_again:
            self._asked_of.setdefault(asked.priority, {})[head_read] = None
        return head_read

    def answered(self, head_read: HeadRead) -> int | None:
        """The priority of what was read; None for a read that nobody asked for, or that is asked no more."""
        asked = self._asked.pop(head_read, None)
        if asked is None:
            return None
        self._asked_again -= asked.is_again
        self._asked_events -= head_read.last - head_read.first + 1
        if not asked.is_again:
            del self._asked_of[asked.priority][head_read]
        return asked.priority

    # --- what goes out -----------------------------------------------------------------------------------------------

    def frontier(self, priority: int) -> int | None:
        """The place from which on a priority is not known yet: nothing behind it may go out. -1: nothing may go out.

        None when everything is known, or MATCHES_MAX events are.
        """
        if self._returned or self._asked_again or any(reads for above, reads in self._asked_of.items() if above > priority):
            return -1
        places = [self._asked[head_read].place for head_read in self._asked_of.get(priority, ())][:1]
        for scan in self.scans():
            if scan.priority >= priority and not self.is_full(scan.priority) and scan.next() is not None:
                if scan.priority > priority:
                    return -1
                places.append(scan.place)
        return min(places, default=None)

    @property
    def due_at_ms(self) -> int | None:
        if len(self._returned) >= READS_MAX:
            return None
        return min((at for scan in self._scans.values() if (at := scan.delays.due_at_ms) is not None), default=None)

    def take_due(self, now_ms: int) -> Iterator[int]:
        """Take out the slots of this view's scans whose time has come; as many as can be read soon."""
        for scan in self._scans.values():
            while len(self._returned) < READS_MAX and (slot := scan.delays.take_due(now_ms)) is not None:
                yield slot


def _pieces(first: int, last: int) -> Iterator[tuple[int, int]]:
    """A run in pieces, each for one read."""
    for begin in range(first, last + 1, READ_EVENTS_MAX):
        yield begin, min(begin + READ_EVENTS_MAX - 1, last)


_GROUPED_LANES = sum(1 << lane for lane in range(LANES) if is_grouped(lane))
