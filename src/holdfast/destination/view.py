"""A view: what the receivers of one selector see of a backlog, as far as the heads of its events were looked at.

    scans ─▶ looks ─(the shell reads heads)─▶ found: what matches, and its group ─▶ groups ─▶ whose turn it is

Receivers with the same selector share one view; receivers without one share the view of batches that have groups, and take
everything else straight from its lane (see `choice`). A view reads ahead only while one of its receivers has credit, and at
most LOOK_AHEAD events that match: past that, groups whose receivers have no credit do hold up the others of the same view.

What comes back behind a scan is looked at again. While that is pending, nothing that would go out after it does.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import NamedTuple

from holdfast.destination.asleep import Asleep
from holdfast.destination.backlog import Backlog
from holdfast.destination.credit import Receiver
from holdfast.destination.grouping import Groups, Offer
from holdfast.destination.traits import LANES, is_grouped, priority_of
from holdfast.event.position import INDEX_BITS, INDEX_MASK

# Events that match and wait for a receiver: enough that other groups flow while one receiver is slow, and a bound.
LOOK_AHEAD = 2_000
# Events of one look: some tenth of a millisecond, so that whoever carries looks out can stop between them.
LOOK_EVENTS = 256
# Looks that are asked and not answered.
LOOKS_MAX = 512


class Look(NamedTuple):
    """Heads to be looked at: events first .. last of one batch, for receivers with this selector ("": all, for their groups)."""

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
    is_again: bool  # it is behind the scan


class Scan:
    """How far a view has looked at one lane."""

    __slots__ = ("_backlog", "asleep", "cursor", "is_at_end", "lane", "priority")

    def __init__(self, lane: int, backlog: Backlog) -> None:
        self.lane = lane
        self.priority = priority_of(lane)
        self.cursor = (0, 0)
        self.is_at_end = False
        self.asleep = Asleep()
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


# (first, last, scan) -> the runs of it that are to be looked at now; those that sleep are noted with the scan.
Lookable = Callable[[int, int, Scan], list[tuple[int, int]]]


class View:
    def __init__(self, selector: str, backlog: Backlog) -> None:
        self.selector = selector
        self.receivers: dict[Receiver, None] = {}
        self.groups = Groups()
        self._backlog = backlog
        self._scans: dict[int, Scan] = {}
        self._again: list[tuple[int, int, int, int]] = []  # heap: priority, negative; place, first, last
        self._asked: dict[Look, _Asked] = {}
        self._asked_again = 0
        self._asked_events = 0
        self._asked_of: dict[int, dict[Look, None]] = {}  # by priority, in the order of their places

    # --- who looks ---------------------------------------------------------------------------------------------------

    def leave(self, receiver: Receiver) -> None:
        self.receivers.pop(receiver, None)
        self.groups.leave(receiver)

    @property
    def credit(self) -> int:
        """The most that one of its receivers may be given."""
        return max((receiver.events for receiver in self.receivers if receiver.has_credit), default=0)

    def is_full(self, priority: int) -> bool:
        """Enough of a priority, and of higher ones, is known to wait, or will be when what is asked is answered.

        With groups, what waits may not be for the one who asks: then as much as may be is enough.
        """
        has_groups = self._backlog.lanes & _GROUPED_LANES
        known = self.groups.count(priority) + (0 if self.selector else self._asked_events)
        return known >= (LOOK_AHEAD if has_groups else min(LOOK_AHEAD, self.credit))

    # --- where it looks ----------------------------------------------------------------------------------------------

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
        """These wait again. If the scan has not come to them yet, it will."""
        place = self._backlog.place_of(first)
        scan = self._scans.get(lane)
        if scan is not None and place < scan.place:
            heapq.heappush(self._again, (-scan.priority, place, first, last))

    def look_first(self, first: int, last: int) -> None:
        """Before anything else goes out, these must be known: somebody came and holds them already."""
        heapq.heappush(self._again, (-LANES, self._backlog.place_of(first), first, last))

    def looks(self, count: int, lookable: Lookable, is_free: Callable[[int, int], list[tuple[int, int]]]) -> list[Look]:
        """What is to be looked at next, for receivers that have credit."""
        made: list[Look] = []
        if not self.credit and not (self._again and self._again[0][0] == -LANES):
            return made
        room = min(count, LOOKS_MAX - len(self._asked))
        while self._again and len(made) < room:
            descent, place, first, last = heapq.heappop(self._again)
            made += [
                self._ask(begin, end, _Asked(-descent, place, True))
                for low, high in is_free(first, last)
                for begin, end in _pieces(low, high)
            ]
        while len(made) < room and (found := self._next_scanned(lookable)) is not None:
            made.extend(found)
        return made

    def _next_scanned(self, lookable: Lookable) -> list[Look] | None:
        """The looks of one batch, by the scan whose turn it is; None when all are at their end."""
        for scan in self._in_turn():
            run = scan.next()
            if run is not None:
                place = scan.place
                runs = lookable(*run, scan)
                scan.go_past(run[1])
                return [
                    self._ask(begin, end, _Asked(scan.priority, place + begin - run[0], False))
                    for low, high in runs
                    for begin, end in _pieces(low, high)
                ]
        return None

    def _in_turn(self) -> Iterator[Scan]:
        """Scans with something to look at, and room for it: the highest priority first, and within it the first place."""
        ready = [scan for scan in self.scans() if not self.is_full(scan.priority) and scan.next() is not None]
        return iter(sorted(ready, key=lambda scan: (-scan.priority, scan.place)))

    def _ask(self, first: int, last: int, asked: _Asked) -> Look:
        look = Look(self.selector, first, last)
        self.answered(look)
        self._asked[look] = asked
        self._asked_again += asked.is_again
        self._asked_events += last - first + 1
        if not asked.is_again:
            self._asked_of.setdefault(asked.priority, {})[look] = None
        return look

    def answered(self, look: Look) -> int | None:
        """The priority of what was looked at; None for a look that nobody asked for, or that is asked no more."""
        asked = self._asked.pop(look, None)
        if asked is None:
            return None
        self._asked_again -= asked.is_again
        self._asked_events -= look.last - look.first + 1
        if not asked.is_again:
            del self._asked_of[asked.priority][look]
        return asked.priority

    # --- what goes out -----------------------------------------------------------------------------------------------

    def peek(self, receiver: Receiver, priority: int, others: list[Receiver]) -> Offer | None:
        return self.groups.peek(receiver, priority, others)

    def frontier(self, priority: int) -> int | None:
        """The place from which on a priority is not known yet: nothing that lies behind may go out. -1: nothing at all may.

        None when all is known, or as much as may be.
        """
        if self._again or self._asked_again or any(looks for above, looks in self._asked_of.items() if above > priority):
            return -1
        places = [self._asked[look].place for look in self._asked_of.get(priority, ())][:1]
        for scan in self.scans():
            if scan.priority >= priority and not self.is_full(scan.priority) and scan.next() is not None:
                if scan.priority > priority:
                    return -1
                places.append(scan.place)
        return min(places, default=None)

    @property
    def wake_at_ms(self) -> int | None:
        if len(self._again) >= LOOKS_MAX:
            return None
        return min((at for scan in self._scans.values() if (at := scan.asleep.wake_at_ms) is not None), default=None)

    def awoken(self, now_ms: int) -> Iterator[int]:
        """The slots of this view's scans whose time has come; as many as can be looked at soon."""
        for scan in self._scans.values():
            while len(self._again) < LOOKS_MAX and (slot := scan.asleep.wake(now_ms)) is not None:
                yield slot


def _pieces(first: int, last: int) -> Iterator[tuple[int, int]]:
    """A run in pieces, each for one look."""
    for begin in range(first, last + 1, LOOK_EVENTS):
        yield begin, min(begin + LOOK_EVENTS - 1, last)


_GROUPED_LANES = sum(1 << lane for lane in range(LANES) if is_grouped(lane))
