"""The delivery state of one backlog: who is there to receive, and the state of every unfinished position.

    positions   the state of each position that is not fresh
    lanes       one for each priority: a cursor, what came back, what is not due
    views       one for each selector, and one for batches with groups: what their receivers may have (see `view`)
    hints       where to find what is returned (in its lane), preferred or delayed; a hint may be out of date, a state never is

A position is in one of these states:

    fresh        never handed out by this primary: at or after the cursor of its lane; not kept
    not due      passed by the cursor because the time its producer named has not come (see `delay_index`); not kept
    held         in flight with a receiver
    returned     waiting again
    preferred    waiting, and first of all after a start (A7)
    delayed      waiting again, not before a time
    given up     redelivered too often, or expired: on its way to the dead queue
    locked       a prepared transaction decides on it, and nobody who holds it is there: handed to nobody (ADR 25)

Every change of a state is made here, so that lanes and views learn of it. `handout` chooses what goes next; `due_timer` returns
what is due. A queue of plain events with plain receivers has one lane and no view.
"""

from __future__ import annotations

import enum
import heapq
from typing import NamedTuple

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.backlog.runs import Runs
from holdfast.destination.batch_traits import LANES, is_grouped, priority_of
from holdfast.destination.delivery.credit import Receiver
from holdfast.destination.delivery.doubt import Doubt
from holdfast.destination.delivery.lane import Hint, Lane
from holdfast.destination.delivery.view import View
from holdfast.event.position import INDEX_BITS, Ranges


class Waiting(enum.Enum):
    FRESH = 0  # never kept
    RETURNED = 1
    PREFERRED = 2
    GIVEN_UP = 3
    LOCKED = 4


class Delayed(NamedTuple):
    not_before_ms: int


PositionState = Receiver | Delayed | Waiting
FRESH, RETURNED, PREFERRED, GIVEN_UP = Waiting.FRESH, Waiting.RETURNED, Waiting.PREFERRED, Waiting.GIVEN_UP
LOCKED = Waiting.LOCKED
FREE = (FRESH, RETURNED, PREFERRED)

# Hints that are out of date are thrown away when there are this many more of them than runs they could point to.
HINTS_SLACK = 1_000


class DeliveryState:
    def __init__(self, backlog: Backlog, limit: int) -> None:
        self.in_flight = 0
        self.limit = limit
        self.positions: Runs[PositionState] = Runs()
        self.views: dict[str, View] = {}
        self.doubt = Doubt()
        self.exhausted: list[tuple[int, int]] = []
        self.lanes: list[Lane] = []  # without groups; the highest priority first
        self.lane: dict[int, Lane] = {}  # the same, by number
        self.priorities: list[int] = []  # the highest first
        self.preferred: list[Hint] = []  # heap: priority, negative; place, first, last
        self.delayed: list[tuple[int, int, int]] = []  # heap of hints: not before, first, last
        self._backlog = backlog
        self._known_lanes = 0
        self._plain: dict[Receiver, None] = {}
        self.placed()

    # --- who is there ------------------------------------------------------------------------------------------------

    def join(self, receiver: Receiver) -> None:
        if receiver.selector:
            self._view(receiver.selector).receivers[receiver] = None
            return
        self._plain[receiver] = None
        if self._has_groups:
            self._view("").receivers[receiver] = None

    def _view(self, selector: str) -> View:
        if selector not in self.views:
            self.views[selector] = view = View(selector, self._backlog)
            if self._has_groups:
                self._delay_grouped()
            self._show_what_came_back(view)
        return self.views[selector]

    def _delay_grouped(self) -> None:
        """Events of a group that wait for a time are known as such before any other of that group is offered."""
        for first, last, not_before_ms in list(self._backlog.history.not_before):
            if is_grouped(self._backlog.lane_of(first >> INDEX_BITS)) and not self.positions.over(first, last):
                self.delay(first, last, not_before_ms)

    def _show_what_came_back(self, view: View) -> None:
        """A new view reads what waits again before what is new; events of a group even before anybody has credit."""
        for first, last, state in self.positions:
            number = self._backlog.lane_of(first >> INDEX_BITS)
            if is_grouped(number) and (state is RETURNED or isinstance(state, Delayed)):
                view.read_first(first, last)
            elif state is RETURNED:
                view.came_back(number, first, last)

    def leave(self, receiver: Receiver) -> None:
        self._plain.pop(receiver, None)
        view = self.views.get(receiver.selector)
        if view is not None:
            view.leave(receiver)
            if not view.receivers:
                del self.views[receiver.selector]

    @property
    def _has_groups(self) -> bool:
        return any(self._known_lanes >> lane & 1 for lane in range(1, LANES, 2))

    def placed(self) -> None:
        """Something new may lie behind every cursor."""
        if self._backlog.lanes != self._known_lanes:
            self._note_lanes()
        for lane in self.lanes:
            lane.is_at_end = False
        for view in self.views.values():
            view.placed()

    def _note_lanes(self) -> None:
        self._known_lanes = self._backlog.lanes
        there = [number for number in range(LANES) if self._known_lanes >> number & 1]
        for number in there:
            if not is_grouped(number) and number not in self.lane:
                self.lane[number] = Lane(number, self._backlog)
        self.lanes = sorted(self.lane.values(), key=lambda lane: -lane.priority)
        self.priorities = sorted({priority_of(number) for number in there}, reverse=True)
        if self._has_groups and self._plain:
            self._view("").receivers.update(self._plain)

    # --- changing the states of positions ----------------------------------------------------------------------------

    def hold(self, receiver: Receiver, first: int, last: int) -> None:
        """These are in flight from now on."""
        self.put(first, last, receiver)
        self.in_flight += last - first + 1
        receiver.entries[first >> INDEX_BITS] = None

    def parts_held(self, receiver: Receiver, first: int, last: int) -> list[tuple[int, int]]:
        """The parts of first .. last (of one entry) that are in flight with this receiver."""
        return [(low, high) for low, high, state in self.positions.over(first, last) if state is receiver]

    def held_in(self, first: int, last: int) -> int:
        """How many of first .. last (of one entry) are in flight."""
        return sum(high - low + 1 for low, high, state in self.positions.over(first, last) if isinstance(state, Receiver))

    def shorten(self, receiver: Receiver) -> None:
        """Forget what the receiver had prefetched and holds no more."""
        receiver.prefetched.keep(lambda first, last: self.parts_held(receiver, first, last))

    def put(self, first: int, last: int, state: PositionState) -> None:
        """These are in this state from now on. They were forgotten before, or free."""
        self.positions.put(first, last, state)
        if self.views:
            for view in self.views.values():
                view.groups.remove(first, last)

    def forget(self, first: int, last: int) -> None:
        for low, high, state in self.positions.cut(first, last):
            if isinstance(state, Receiver):
                self.in_flight -= high - low + 1
                entry = low >> INDEX_BITS
                if not any(other is state for _, _, other in self.positions.of_entry(entry)):
                    state.entries.pop(entry, None)
            elif isinstance(state, Delayed):
                for view in self.views.values():
                    view.groups.stall(low, high, -1)

    def finish(self, first: int, last: int) -> None:
        self.forget(first, last)
        if self.views:
            for view in self.views.values():
                view.finish(first, last)

    def put_back(self, first: int, last: int, not_before_ms: int) -> None:
        """These wait again: at once, or from a time that the backlog or the caller names. Give up those delivered too often."""
        if self._backlog.locks is not None and (locked := self._backlog.locks.inside(Ranges.of((first, last)))):
            for low, high in locked:
                self.put(low, high, LOCKED)
            for low, high in Ranges.of((first, last)).without(locked):
                self.put_back(low, high, not_before_ms)
            return
        for low, high, deliveries in self._backlog.deliveries_over(first, last):
            if self.is_over_limit(deliveries):
                self.exhaust(low, high)
                continue
            for start, end, delay_ms in self._backlog.not_before_over(low, high):
                if max(delay_ms, not_before_ms):
                    self.delay(start, end, max(delay_ms, not_before_ms))
                else:
                    self.wait_again(start, end)

    def return_fresh(self, first: int, last: int, not_before_ms: int) -> None:
        """These were given back although nobody was handed them; or they were finished, and wait again."""
        number = self._backlog.lane_of(first >> INDEX_BITS)
        lane = self.lane.get(number)
        is_delayed = not_before_ms or any(at_ms for _, _, at_ms in self._backlog.not_before_over(first, last))
        if is_delayed or (lane is not None and self._backlog.place_of(first) < lane.place):
            self.put_back(first, last, not_before_ms)
            return
        for view in self.views.values():
            view.came_back(number, first, last)

    def wait_again(self, first: int, last: int) -> None:
        self.positions.put(first, last, RETURNED)
        number = self._backlog.lane_of(first >> INDEX_BITS)
        for view in self.views.values():
            view.came_back(number, first, last)
        if not is_grouped(number):
            self.lane[number].hint(first, last)
            self._bound_hints()

    def prefer(self, first: int, last: int) -> None:
        number = self._backlog.lane_of(first >> INDEX_BITS)
        is_fresh = not self.positions.over(first, last) and not any(run[2] for run in self._backlog.not_before_over(first, last))
        if is_fresh and not is_grouped(number):
            self.positions.put(first, last, PREFERRED)
            heapq.heappush(self.preferred, (-priority_of(number), self._backlog.place_of(first), first, last))

    def delay(self, first: int, last: int, not_before_ms: int) -> None:
        self.put(first, last, Delayed(not_before_ms))
        for view in self.views.values():
            view.groups.stall(first, last, 1)
        heapq.heappush(self.delayed, (not_before_ms, first, last))
        self._bound_hints()

    def read_first(self, receiver: Receiver, first: int, last: int) -> None:
        """The receiver came holding these. If they have groups, those groups are its own: their heads are read first."""
        view = self.views.get(receiver.selector)
        if view is not None and is_grouped(self._backlog.lane_of(first >> INDEX_BITS)):
            view.read_first(first, last)

    def exhaust(self, first: int, last: int) -> None:
        self.put(first, last, GIVEN_UP)
        self.exhausted.append((first, last))

    def is_over_limit(self, deliveries: int) -> bool:
        return 0 < self.limit < deliveries

    # --- hints -------------------------------------------------------------------------------------------------------

    @property
    def hints(self) -> int:
        return len(self.preferred) + len(self.delayed) + sum(len(lane.returned) for lane in self.lanes)

    def _bound_hints(self) -> None:
        """Receivers that come and go without taking anything leave hints behind: rebuild them when most are out of date."""
        if self.hints <= 2 * len(self.positions) + HINTS_SLACK:
            return
        runs = list(self.positions)
        self.delayed[:] = [(state.not_before_ms, first, last) for first, last, state in runs if isinstance(state, Delayed)]
        heapq.heapify(self.delayed)
        for lane in self.lanes:
            lane.returned.clear()
        for first, last, state in runs:
            number = self._backlog.lane_of(first >> INDEX_BITS)
            if state is RETURNED and not is_grouped(number):
                self.lane[number].hint(first, last)
