"""The waiting room of one backlog: where every position stands, and which goes next to a given receiver.

    lanes       one for each priority: a cursor, what came back, what sleeps
    views       one for each selector, and one for batches with groups: what their receivers may have (see `view`)
    delayed     what waits again, not before a time

Whoever changes where a position stands does it here, so that lanes and views hear of it. In a queue of plain events with plain
receivers there is one lane and no view.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.destination.backlog import Backlog
from holdfast.destination.credit import Receiver
from holdfast.destination.grouping import Offer
from holdfast.destination.lane import Hint, Lane
from holdfast.destination.runs import Runs
from holdfast.destination.standing import FRESH, GIVEN_UP, PREFERRED, RETURNED, Delayed, Standing
from holdfast.destination.traits import LANES, is_grouped, priority_of
from holdfast.destination.view import Scan, View
from holdfast.event.position import INDEX_BITS, INDEX_MASK, Ranges

# Hints that are out of date are thrown away when there are this many more of them than runs they could point to.
HINTS_SLACK = 1_000
# Batches of a lane that are woken and not handed out yet: the others go on sleeping, in eight bytes each.
AWAKE_MAX = 1_000


class Choice(NamedTuple):
    """What goes next: fresh events of a lane, what came back (its hint is the first of `hints`), or what a view offers."""

    first: int
    last: int
    lane: Lane | None = None
    hints: list[Hint] | None = None
    offer: Offer | None = None


class WaitingRoom:
    def __init__(self, backlog: Backlog, limit: int) -> None:
        self.in_flight = 0
        self.limit = limit
        self.standing: Runs[Standing] = Runs()
        self.views: dict[str, View] = {}
        self.exhausted: list[tuple[int, int]] = []
        self._backlog = backlog
        self._lanes: list[Lane] = []  # without groups; the highest priority first
        self._lane: dict[int, Lane] = {}
        self._known_lanes = 0
        self._priorities: list[int] = []
        self._plain: dict[Receiver, None] = {}
        self._preferred: list[Hint] = []  # heap: priority, negative; place, first, last
        self._delayed: list[tuple[int, int, int]] = []  # heap of hints: not before, first, last
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
                self._show_what_came_back(view)
        return self.views[selector]

    def _show_what_came_back(self, view: View) -> None:
        """Before a new view gives anything of a group, it must know what of it waits again."""
        for first, last, not_before_ms in list(self._backlog.history.not_before):
            if is_grouped(self._backlog.lane_of(first >> INDEX_BITS)) and not self.standing.over(first, last):
                self.delay(first, last, not_before_ms)
        for first, last, state in self.standing:
            is_back = state is RETURNED or isinstance(state, Delayed)
            if is_back and is_grouped(self._backlog.lane_of(first >> INDEX_BITS)):
                view.look_first(first, last)

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
        for lane in self._lanes:
            lane.is_at_end = False
        for view in self.views.values():
            view.placed()

    def _note_lanes(self) -> None:
        self._known_lanes = self._backlog.lanes
        there = [number for number in range(LANES) if self._known_lanes >> number & 1]
        for number in there:
            if not is_grouped(number) and number not in self._lane:
                self._lane[number] = Lane(number, self._backlog)
        self._lanes = sorted(self._lane.values(), key=lambda lane: -lane.priority)
        self._priorities = sorted({priority_of(number) for number in there}, reverse=True)
        if self._has_groups and self._plain:
            self._view("").receivers.update(self._plain)

    # --- what goes next ----------------------------------------------------------------------------------------------

    def choice(self, receiver: Receiver, now_ms: int) -> Choice | None:
        """What this receiver gets next; None for nothing."""
        if not receiver.selector and self._preferred and (front := self._front(self._preferred, PREFERRED)) is not None:
            return Choice(front[-2], front[-1], hints=self._preferred)
        if self.views and (view := self.views.get(receiver.selector)) is not None:
            return self._choice_in(view, receiver, now_ms)
        for lane in self._lanes:
            chosen = self._choice_of(lane, now_ms)
            if chosen is not None:
                return chosen
        return None

    def plain_lane(self) -> Lane | None:
        """The only lane, if nothing waits but what is fresh in it, for receivers that take everything."""
        lane = self._lanes[0]
        return None if self.views or self._preferred or lane.returned or len(self._lanes) > 1 else lane

    def has_any(self, now_ms: int) -> bool:
        """Something waits for a receiver that takes everything."""
        if self._preferred and self._front(self._preferred, PREFERRED) is not None:
            return True
        return any(self._choice_of(lane, now_ms) is not None for lane in self._lanes)

    def _choice_of(self, lane: Lane, now_ms: int) -> Choice | None:
        if lane.returned and (front := self._front(lane.returned, RETURNED)) is not None:
            return Choice(front[-2], front[-1], hints=lane.returned)
        fresh = self.fresh(lane, now_ms)
        return None if fresh is None else Choice(fresh[0], fresh[1], lane)

    def _choice_in(self, view: View, receiver: Receiver, now_ms: int) -> Choice | None:
        """With a view: nothing goes before what it has not looked at yet and would go first."""
        others = [each for each in view.receivers if each is not receiver and each.has_credit]
        for priority in self._priorities:
            frontier = view.frontier(priority)
            if frontier == -1:
                return None
            found = self._choice_at(view, receiver, priority, others, now_ms)
            if found is not None:
                rank, place, chosen = found
                return None if rank and frontier is not None and place >= frontier else chosen
            if frontier is not None:
                return None
        return None

    def _choice_at(
        self, view: View, receiver: Receiver, priority: int, others: list[Receiver], now_ms: int
    ) -> tuple[int, int, Choice] | None:
        """The first of what the view and, for a receiver that takes everything, the lane have: with its rank and place."""
        offer = view.groups.peek(receiver, priority, others)
        offered = None if offer is None else (offer.rank, offer.place, Choice(offer.first, offer.last, offer=offer))
        lane = self._lane.get(2 * priority) if not receiver.selector else None
        chosen = self._choice_of(lane, now_ms) if lane is not None else None
        if chosen is None:
            return offered
        found = (int(chosen.lane is not None), self._backlog.place_of(chosen.first), chosen)
        return found if offered is None or found[:2] < offered[:2] else offered

    def fresh(self, lane: Lane, now_ms: int) -> tuple[int, int] | None:
        """The first fresh positions of a lane that are due; the cursor is moved to them."""
        while (run := lane.advance()) is not None:
            first, last = run
            state: Standing = FRESH
            if self.standing.has(first >> INDEX_BITS):
                _, last, state = self.standing.filled(first, last, FRESH)[0]
            if state is FRESH:
                if not self._backlog.history.not_before and not self._backlog.has_delays:
                    return first, last
                _, last, not_before_ms = self._backlog.not_before_over(first, last)[0]
                if not_before_ms <= now_ms:
                    return first, last
                self._sleep(first, last, not_before_ms, lane)
            lane.pass_over(last)
        return None

    def _sleep(self, first: int, last: int, not_before_ms: int, by: Lane | Scan) -> None:
        """These are not due: what its producer delayed sleeps by batch; what was given back with a delay is kept by itself."""
        if self.standing.over(first, last) or self._backlog.history.not_before.over(first, last):
            self.delay(first, last, not_before_ms)
        else:
            by.asleep.add(by.cursor[0], not_before_ms)

    def due(self, first: int, last: int, now_ms: int, scan: Scan) -> list[tuple[int, int]]:
        """What of a run that nobody has is due; the rest sleeps, or is delayed."""
        if not self._backlog.history.not_before and not self._backlog.has_delays:
            return [(first, last)]
        found = []
        for low, high, not_before_ms in self._backlog.not_before_over(first, last):
            if not_before_ms <= now_ms:
                found.append((low, high))
            else:
                self._sleep(low, high, not_before_ms, scan)
        return found

    def _front(self, hints: list[Hint], wanted: Standing) -> Hint | None:
        """The first hint that holds. Those before it, and what of it does not, are taken away."""
        while hints:
            *key, place, first, last = hints[0]
            runs = [(low, high) for low, high, state in self.standing.over(first, last) if state is wanted]
            if runs == [(first, last)]:
                return hints[0]
            heapq.heappop(hints)
            for low, high in runs:
                heapq.heappush(hints, (*key, place + low - first, low, high))
        return None

    def first_piece(self, first: int, last: int, wanted: int) -> tuple[int, int | None]:
        """The end of the first events of a run that were delivered equally often, and how often; None for exhausted ones."""
        end, deliveries = last, 0
        if self._backlog.has_history:
            _, end, deliveries = self._backlog.deliveries_over(first, last)[0]
        if self._is_over_limit(deliveries):
            self._exhaust(first, end)
            return end, None
        return min(end, first + wanted - 1), deliveries

    def go_past(self, chosen: Choice, end: int, receiver: Receiver, *, is_handed: bool) -> None:
        """Everything chosen up to `end` is handed to the receiver, or given up; the rest is next."""
        if chosen.lane is not None:
            chosen.lane.go_past(end)
            chosen.lane.chain = (receiver, end) if is_handed else None
        elif chosen.hints is not None:
            *key, place, first, last = heapq.heappop(chosen.hints)
            if end < last:
                heapq.heappush(chosen.hints, (*key, place + end + 1 - first, end + 1, last))
        elif chosen.offer is not None and is_handed:
            self.views[receiver.selector].groups.take(receiver, chosen.offer, end)

    # --- changing where positions stand ------------------------------------------------------------------------------

    def put(self, first: int, last: int, state: Standing) -> None:
        """These stand so from now on. They were forgotten before, or stood free."""
        self.standing.put(first, last, state)
        if isinstance(state, Receiver):
            self.in_flight += last - first + 1
        if self.views:
            for view in self.views.values():
                view.groups.remove(first, last)

    def forget(self, first: int, last: int) -> None:
        for low, high, state in self.standing.cut(first, last):
            if isinstance(state, Receiver):
                self.in_flight -= high - low + 1
                entry = low >> INDEX_BITS
                if not any(other is state for _, _, other in self.standing.of_entry(entry)):
                    state.entries.pop(entry, None)
            elif isinstance(state, Delayed):
                for view in self.views.values():
                    view.groups.stall(low, high, -1)

    def finish(self, first: int, last: int) -> None:
        self.forget(first, last)
        if self.views:
            for view in self.views.values():
                view.groups.finish(first, last)

    def put_back(self, first: int, last: int, not_before_ms: int) -> None:
        """These wait again: at once, when the backlog or the caller says, or never when they were delivered too often."""
        for low, high, deliveries in self._backlog.deliveries_over(first, last):
            if self._is_over_limit(deliveries):
                self._exhaust(low, high)
                continue
            for start, end, delay_ms in self._backlog.not_before_over(low, high):
                if max(delay_ms, not_before_ms):
                    self.delay(start, end, max(delay_ms, not_before_ms))
                else:
                    self.wait_again(start, end)

    def return_fresh(self, first: int, last: int, not_before_ms: int) -> None:
        """Somebody gave these back although nobody was handed them; or they were finished, and wait again."""
        number = self._backlog.lane_of(first >> INDEX_BITS)
        lane = self._lane.get(number)
        is_delayed = not_before_ms or any(at_ms for _, _, at_ms in self._backlog.not_before_over(first, last))
        if is_delayed or (lane is not None and self._backlog.place_of(first) < lane.place):
            self.put_back(first, last, not_before_ms)
            return
        for view in self.views.values():
            view.came_back(number, first, last)

    def wait_again(self, first: int, last: int) -> None:
        self.standing.put(first, last, RETURNED)
        number = self._backlog.lane_of(first >> INDEX_BITS)
        for view in self.views.values():
            view.came_back(number, first, last)
        if not is_grouped(number):
            self._lane[number].hint(first, last)
            self._bound_hints()

    def prefer(self, first: int, last: int) -> None:
        number = self._backlog.lane_of(first >> INDEX_BITS)
        is_fresh = not self.standing.over(first, last) and not any(run[2] for run in self._backlog.not_before_over(first, last))
        if is_fresh and not is_grouped(number):
            self.standing.put(first, last, PREFERRED)
            heapq.heappush(self._preferred, (-priority_of(number), self._backlog.place_of(first), first, last))

    def delay(self, first: int, last: int, not_before_ms: int) -> None:
        self.put(first, last, Delayed(not_before_ms))
        for view in self.views.values():
            view.groups.stall(first, last, 1)
        heapq.heappush(self._delayed, (not_before_ms, first, last))
        self._bound_hints()

    def look_first(self, receiver: Receiver, first: int, last: int) -> None:
        """It came holding these: if they have groups, those are its own."""
        view = self.views.get(receiver.selector)
        if view is not None and is_grouped(self._backlog.lane_of(first >> INDEX_BITS)):
            view.look_first(first, last)

    def _exhaust(self, first: int, last: int) -> None:
        self.put(first, last, GIVEN_UP)
        self.exhausted.append((first, last))

    def _is_over_limit(self, deliveries: int) -> bool:
        return 0 < self.limit < deliveries

    # --- time --------------------------------------------------------------------------------------------------------

    def wake(self, now_ms: int) -> None:
        """What is due waits no longer for its time."""
        while self._delayed and self._delayed[0][0] <= now_ms:
            not_before_ms, first, last = heapq.heappop(self._delayed)
            for low, high, state in self.standing.over(first, last):
                if state == Delayed(not_before_ms):
                    self.forget(low, high)
                    self.wait_again(low, high)
        if self._backlog.has_delays:
            self._wake_sleepers(now_ms)

    def _wake_sleepers(self, now_ms: int) -> None:
        for lane in self._lanes:
            while len(lane.returned) < AWAKE_MAX and (slot := lane.asleep.wake(now_ms)) is not None:
                for first, last in self._fresh_in(slot):
                    self.wait_again(first, last)
        for view in self.views.values():
            for slot in view.awoken(now_ms):
                for first, last in self._fresh_in(slot):
                    view.came_back(self._backlog.lane_of(first >> INDEX_BITS), first, last)

    def _fresh_in(self, slot: int) -> Iterator[tuple[int, int]]:
        page = self._backlog.page_with(slot)
        if page is None or not page.remaining[slot - page.first_slot]:
            return
        first = self._backlog.entry_at(page, slot - page.first_slot) << INDEX_BITS
        for low, high in list(self._backlog.unfinished(Ranges.of((first, first | INDEX_MASK)))):
            for start, end, state in self.standing.filled(low, high, FRESH):
                if state is FRESH:
                    yield start, end

    @property
    def wake_at_ms(self) -> int | None:
        while self._delayed:
            not_before_ms, first, last = self._delayed[0]
            if any(state == Delayed(not_before_ms) for _, _, state in self.standing.over(first, last)):
                break
            heapq.heappop(self._delayed)
        times = [self._delayed[0][0]] if self._delayed else []
        times += [at for lane in self._lanes if len(lane.returned) < AWAKE_MAX and (at := lane.asleep.wake_at_ms) is not None]
        times += [at for view in self.views.values() if (at := view.wake_at_ms) is not None]
        return min(times, default=None)

    # --- hints -------------------------------------------------------------------------------------------------------

    @property
    def hints(self) -> int:
        return len(self._preferred) + len(self._delayed) + sum(len(lane.returned) for lane in self._lanes)

    def _bound_hints(self) -> None:
        """Holders that come and go without taking anything leave hints behind: begin anew when most are out of date."""
        if self.hints <= 2 * len(self.standing) + HINTS_SLACK:
            return
        runs = list(self.standing)
        self._delayed = [(state.not_before_ms, first, last) for first, last, state in runs if isinstance(state, Delayed)]
        heapq.heapify(self._delayed)
        for lane in self._lanes:
            lane.returned.clear()
        for first, last, state in runs:
            number = self._backlog.lane_of(first >> INDEX_BITS)
            if state is RETURNED and not is_grouped(number):
                self._lane[number].hint(first, last)
