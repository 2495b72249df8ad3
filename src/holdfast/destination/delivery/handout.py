"""A handout: what one receiver gets at once, slice by slice.

What goes next to a given receiver:

    first                   what was recorded at the start (A7)
    then, by its priority   what came back, first placed first
                            what is fresh, from the cursor of its lane on

Events of a group, and receivers that want only some events, go by way of a `view`, which keeps this order as far as it has
read heads. A choice that is not gone past stays the choice. What is chosen goes out in slices, each of one batch and delivered
equally often before:

    first ──────────────▶ last     what is chosen next
    │ 0 0 0 │ 1 1 │ 3 │ 0 …        deliveries before: a slice ends where they change
                    ▲ redelivered as often as allowed: not handed out, but given up
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.delivery.credit import Receiver
from holdfast.destination.delivery.delivery_state import FRESH, PREFERRED, RETURNED, DeliveryState, PositionState
from holdfast.destination.delivery.due_timer import DueTimer
from holdfast.destination.delivery.groups import Offer
from holdfast.destination.delivery.lane import Hint, Lane
from holdfast.destination.delivery.view import View
from holdfast.destination.effect import Holder
from holdfast.event.position import INDEX_BITS


class HandoutSlice(NamedTuple):
    """A run of positions of one batch that were delivered equally often. The last two fields as in a frame's `Slice`."""

    first: int
    events: int
    deliveries: int
    is_adjoining: bool
    is_returned: bool = False


class Handout(NamedTuple):
    holder: Holder
    slices: list[HandoutSlice]
    is_careful: bool = False  # to be noted in the channel first (see `crash_care`)


class Choice(NamedTuple):
    """Fresh events of a lane, what came back (its hint is the first of `hints`), or what a view offers."""

    first: int
    last: int
    lane: Lane | None = None
    hints: list[Hint] | None = None
    offer: Offer | None = None


class Handouts:
    def __init__(self, state: DeliveryState, due_timer: DueTimer, backlog: Backlog) -> None:
        self._state = state
        self._due_timer = due_timer
        self._backlog = backlog
        self._positions = state.positions
        self._views = state.views
        self._preferred = state.preferred

    # --- slices ------------------------------------------------------------------------------------------------------

    def slices(self, receiver: Receiver, wanted: int, now_ms: int) -> list[HandoutSlice]:
        """The next events for a receiver, which holds them from now on: at most so many."""
        slices: list[HandoutSlice] = []
        plain = self._plain_lane()
        while wanted > 0:
            handed = (
                self._next_slice(receiver, wanted, now_ms) if plain is None else self._next_of(plain, receiver, wanted, now_ms)
            )
            if handed is None:
                break
            slices.append(handed)
            wanted -= handed.events
        if receiver.prefetched.is_long:
            self._state.shorten(receiver)
        return slices

    def _next_slice(self, receiver: Receiver, wanted: int, now_ms: int) -> HandoutSlice | None:
        while (chosen := self.choice(receiver, now_ms)) is not None:
            first, last, lane = chosen.first, chosen.last, chosen.lane
            end, deliveries, is_returned = self._first_piece(first, last, wanted)
            is_adjoining = first == receiver.newest + 1 or (lane is not None and self._is_adjoining(lane, receiver, first))
            self._go_past(chosen, end, receiver, is_handed=deliveries is not None)
            if deliveries is not None:
                self._state.hold(receiver, first, end)
                receiver.take(first, end)
                return HandoutSlice(first, end - first + 1, deliveries, is_adjoining, is_returned)
        return None

    def _next_of(self, lane: Lane, receiver: Receiver, wanted: int, now_ms: int) -> HandoutSlice | None:
        """As `_next_slice`, where there is only one lane and all of it is fresh: most of what is ever handed out."""
        while (run := self._fresh(lane, now_ms)) is not None:
            end, deliveries, is_returned = self._first_piece(*run, wanted)
            first = run[0]
            is_adjoining = first == receiver.newest + 1 or self._is_adjoining(lane, receiver, first)
            lane.go_past(end)
            if deliveries is not None:
                lane.chain = (receiver, end)
                self._state.hold(receiver, first, end)
                receiver.take(first, end)
                return HandoutSlice(first, end - first + 1, deliveries, is_adjoining, is_returned)
            lane.chain = None
        return None

    def _first_piece(self, first: int, last: int, wanted: int) -> tuple[int, int | None, bool]:
        """The end of the first events of a run that were delivered equally often, how often (None for exhausted ones), and
        whether they came back although that was not counted."""
        end, deliveries, is_returned = last, 0, False
        if self._backlog.has_history:
            _, end, deliveries = self._backlog.deliveries_over(first, last)[0]
            if not deliveries:
                end, is_returned = self._backlog.history.marked_until(first, end)
        if not deliveries and not is_returned:
            end, is_returned = self._state.doubt.marked_until(first, end)
        if self._state.is_over_limit(deliveries):
            self._state.exhaust(first, end)
            return end, None, False
        return min(end, first + wanted - 1), deliveries, is_returned

    def _is_adjoining(self, lane: Lane, receiver: Receiver, first: int) -> bool:
        """No position that this receiver was not handed lies, or can come to lie, between what it was handed last and `first`."""
        if lane.chain != (receiver, receiver.newest) or first < receiver.newest:
            return False
        return self._backlog.may_span(receiver.newest >> INDEX_BITS, first >> INDEX_BITS)

    # --- choices -----------------------------------------------------------------------------------------------------

    def choice(self, receiver: Receiver, now_ms: int) -> Choice | None:
        """The next events for this receiver; None for nothing."""
        if not receiver.selector and self._preferred and (front := self._front(self._preferred, PREFERRED)) is not None:
            return Choice(front[-2], front[-1], hints=self._preferred)
        if self._views and (view := self._views.get(receiver.selector)) is not None:
            return self._choice_in(view, receiver, now_ms)
        return self._choice_of_lanes(now_ms)

    def has_any(self, now_ms: int) -> bool:
        """Something waits for a receiver that takes everything."""
        if self._preferred and self._front(self._preferred, PREFERRED) is not None:
            return True
        return self._choice_of_lanes(now_ms) is not None

    def _go_past(self, chosen: Choice, end: int, receiver: Receiver, *, is_handed: bool) -> None:
        """The choice up to `end` is handed to the receiver, or given up; the rest is next."""
        if chosen.lane is not None:
            chosen.lane.go_past(end)
            chosen.lane.chain = (receiver, end) if is_handed else None
        elif chosen.hints is not None:
            *key, place, first, last = heapq.heappop(chosen.hints)
            if end < last:
                heapq.heappush(chosen.hints, (*key, place + end + 1 - first, end + 1, last))
        elif chosen.offer is not None and is_handed:
            self._views[receiver.selector].groups.take(receiver, chosen.offer, end)

    # --- by lane -----------------------------------------------------------------------------------------------------

    def _plain_lane(self) -> Lane | None:
        """The only lane, if nothing waits but what is fresh in it, for receivers that take everything."""
        lane = self._state.lanes[0]
        return None if self._views or self._preferred or lane.returned or len(self._state.lanes) > 1 else lane

    def _choice_of_lanes(self, now_ms: int) -> Choice | None:
        for lane in self._state.lanes:
            chosen = self._choice_of(lane, now_ms)
            if chosen is not None:
                return chosen
        return None

    def _choice_of(self, lane: Lane, now_ms: int) -> Choice | None:
        if lane.returned and (front := self._front(lane.returned, RETURNED)) is not None:
            return Choice(front[-2], front[-1], hints=lane.returned)
        fresh = self._fresh(lane, now_ms)
        return None if fresh is None else Choice(fresh[0], fresh[1], lane)

    def _fresh(self, lane: Lane, now_ms: int) -> tuple[int, int] | None:
        """The first fresh positions of a lane that are due; the cursor is moved to them."""
        while (run := lane.advance()) is not None:
            first, last = run
            state: PositionState = FRESH
            if self._positions.has(first >> INDEX_BITS):
                _, last, state = self._positions.filled(first, last, FRESH)[0]
            if state is FRESH:
                if not self._backlog.history.not_before and not self._backlog.has_delays:
                    return first, last
                _, last, not_before_ms = self._backlog.not_before_over(first, last)[0]
                if not_before_ms <= now_ms:
                    return first, last
                self._due_timer.put_off(first, last, not_before_ms, lane)
            lane.pass_over(last)
        return None

    def _front(self, hints: list[Hint], wanted: PositionState) -> Hint | None:
        """The first hint that is true. Hints before it, and parts of it that are not true, are removed."""
        while hints:
            *key, place, first, last = hints[0]
            runs = [(low, high) for low, high, state in self._positions.over(first, last) if state is wanted]
            if runs == [(first, last)]:
                return hints[0]
            heapq.heappop(hints)
            for low, high in runs:
                heapq.heappush(hints, (*key, place + low - first, low, high))
        return None

    # --- by view -----------------------------------------------------------------------------------------------------

    def _choice_in(self, view: View, receiver: Receiver, now_ms: int) -> Choice | None:
        """With a view, nothing goes out before an event that would go first and whose head is not read yet."""
        others = [each for each in view.receivers if each is not receiver and each.has_credit]
        for priority in self._state.priorities:
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
        """The first event of the view or, for a receiver that takes everything, of the lane: with its rank and place."""
        offer = view.groups.peek(receiver, priority, others)
        offered = None if offer is None else (offer.rank, offer.place, Choice(offer.first, offer.last, offer=offer))
        lane = self._state.lane.get(2 * priority) if not receiver.selector else None
        chosen = self._choice_of(lane, now_ms) if lane is not None else None
        if chosen is None:
            return offered
        found = (int(chosen.lane is not None), self._backlog.place_of(chosen.first), chosen)
        return found if offered is None or found[:2] < offered[:2] else offered
