"""A choice: what goes next to a given receiver.

    first                   what was recorded at the start (A7)
    then, by its priority   what came back, first placed first
                            what is fresh, from the cursor of its lane on

Events of a group, and receivers that want only some events, go by way of a `view`, which keeps this order as far as it has
looked. A choice that is not gone past stays the choice.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

from holdfast.destination.backlog import Backlog
from holdfast.destination.credit import Receiver
from holdfast.destination.grouping import Offer
from holdfast.destination.lane import Hint, Lane
from holdfast.destination.standing import FRESH, PREFERRED, RETURNED, Standing
from holdfast.destination.view import View
from holdfast.destination.waiting_room import WaitingRoom
from holdfast.destination.waking import Waking
from holdfast.event.position import INDEX_BITS


class Choice(NamedTuple):
    """Fresh events of a lane, what came back (its hint is the first of `hints`), or what a view offers."""

    first: int
    last: int
    lane: Lane | None = None
    hints: list[Hint] | None = None
    offer: Offer | None = None


class Choices:
    def __init__(self, room: WaitingRoom, waking: Waking, backlog: Backlog) -> None:
        self._room = room
        self._waking = waking
        self._backlog = backlog
        self._standing = room.standing
        self._views = room.views
        self._preferred = room.preferred

    def choice(self, receiver: Receiver, now_ms: int) -> Choice | None:
        """What this receiver gets next; None for nothing."""
        if not receiver.selector and self._preferred and (front := self._front(self._preferred, PREFERRED)) is not None:
            return Choice(front[-2], front[-1], hints=self._preferred)
        if self._views and (view := self._views.get(receiver.selector)) is not None:
            return self._choice_in(view, receiver, now_ms)
        for lane in self._room.lanes:
            chosen = self._choice_of(lane, now_ms)
            if chosen is not None:
                return chosen
        return None

    def has_any(self, now_ms: int) -> bool:
        """Something waits for a receiver that takes everything."""
        if self._preferred and self._front(self._preferred, PREFERRED) is not None:
            return True
        return any(self._choice_of(lane, now_ms) is not None for lane in self._room.lanes)

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
            self._views[receiver.selector].groups.take(receiver, chosen.offer, end)

    # --- by lane -----------------------------------------------------------------------------------------------------

    def plain_lane(self) -> Lane | None:
        """The only lane, if nothing waits but what is fresh in it, for receivers that take everything."""
        lane = self._room.lanes[0]
        return None if self._views or self._preferred or lane.returned or len(self._room.lanes) > 1 else lane

    def _choice_of(self, lane: Lane, now_ms: int) -> Choice | None:
        if lane.returned and (front := self._front(lane.returned, RETURNED)) is not None:
            return Choice(front[-2], front[-1], hints=lane.returned)
        fresh = self.fresh(lane, now_ms)
        return None if fresh is None else Choice(fresh[0], fresh[1], lane)

    def fresh(self, lane: Lane, now_ms: int) -> tuple[int, int] | None:
        """The first fresh positions of a lane that are due; the cursor is moved to them."""
        while (run := lane.advance()) is not None:
            first, last = run
            state: Standing = FRESH
            if self._standing.has(first >> INDEX_BITS):
                _, last, state = self._standing.filled(first, last, FRESH)[0]
            if state is FRESH:
                if not self._backlog.history.not_before and not self._backlog.has_delays:
                    return first, last
                _, last, not_before_ms = self._backlog.not_before_over(first, last)[0]
                if not_before_ms <= now_ms:
                    return first, last
                self._waking.sleep(first, last, not_before_ms, lane)
            lane.pass_over(last)
        return None

    def _front(self, hints: list[Hint], wanted: Standing) -> Hint | None:
        """The first hint that holds. Those before it, and what of it does not, are taken away."""
        while hints:
            *key, place, first, last = hints[0]
            runs = [(low, high) for low, high, state in self._standing.over(first, last) if state is wanted]
            if runs == [(first, last)]:
                return hints[0]
            heapq.heappop(hints)
            for low, high in runs:
                heapq.heappush(hints, (*key, place + low - first, low, high))
        return None

    # --- by view -----------------------------------------------------------------------------------------------------

    def _choice_in(self, view: View, receiver: Receiver, now_ms: int) -> Choice | None:
        """With a view: nothing goes before what it has not looked at yet and would go first."""
        others = [each for each in view.receivers if each is not receiver and each.has_credit]
        for priority in self._room.priorities:
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
        lane = self._room.lane.get(2 * priority) if not receiver.selector else None
        chosen = self._choice_of(lane, now_ms) if lane is not None else None
        if chosen is None:
            return offered
        found = (int(chosen.lane is not None), self._backlog.place_of(chosen.first), chosen)
        return found if offered is None or found[:2] < offered[:2] else offered
