"""A handout: what one holder gets at once, slice by slice, each of one batch and delivered equally often before.

first ──────────────▶ last     what is chosen next (see `choice`)
│ 0 0 0 │ 1 1 │ 3 │ 0 …        deliveries before: a slice ends where they change
                ▲ redelivered as often as allowed: not handed out, but given up
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.destination.backlog import Backlog
from holdfast.destination.choice import Choices
from holdfast.destination.credit import Receiver
from holdfast.destination.lane import Lane
from holdfast.destination.receivers import Holder
from holdfast.destination.waiting_room import WaitingRoom
from holdfast.event.position import INDEX_BITS


class HandoutSlice(NamedTuple):
    """A run of positions of one batch that were delivered equally often. `is_adjoining` as in a frame's `Slice`."""

    first: int
    events: int
    deliveries: int
    is_adjoining: bool


class Handout(NamedTuple):
    holder: Holder
    slices: list[HandoutSlice]


class Handouts:
    def __init__(self, room: WaitingRoom, choices: Choices, backlog: Backlog) -> None:
        self._room = room
        self._choices = choices
        self._backlog = backlog

    def slices(self, receiver: Receiver, wanted: int, now_ms: int) -> list[HandoutSlice]:
        """The next events for a receiver, which holds them from now on: at most so many."""
        slices: list[HandoutSlice] = []
        plain = self._choices.plain_lane()
        while wanted > 0:
            handed = (
                self._next_slice(receiver, wanted, now_ms) if plain is None else self._next_of(plain, receiver, wanted, now_ms)
            )
            if handed is None:
                break
            slices.append(handed)
            wanted -= handed.events
        return slices

    def _next_slice(self, receiver: Receiver, wanted: int, now_ms: int) -> HandoutSlice | None:
        while (chosen := self._choices.choice(receiver, now_ms)) is not None:
            first, last, lane = chosen.first, chosen.last, chosen.lane
            end, deliveries = self._first_piece(first, last, wanted)
            is_adjoining = first == receiver.newest + 1 or (lane is not None and self._is_adjoining(lane, receiver, first))
            self._choices.go_past(chosen, end, receiver, is_handed=deliveries is not None)
            if deliveries is not None:
                self._room.hold(receiver, first, end)
                receiver.newest = end
                return HandoutSlice(first, end - first + 1, deliveries, is_adjoining)
        return None

    def _next_of(self, lane: Lane, receiver: Receiver, wanted: int, now_ms: int) -> HandoutSlice | None:
        """As `_next_slice`, where there is only one lane and all of it is fresh: most of what is ever handed out."""
        while (run := self._choices.fresh(lane, now_ms)) is not None:
            end, deliveries = self._first_piece(*run, wanted)
            first = run[0]
            is_adjoining = first == receiver.newest + 1 or self._is_adjoining(lane, receiver, first)
            lane.go_past(end)
            if deliveries is not None:
                lane.chain = (receiver, end)
                self._room.hold(receiver, first, end)
                receiver.newest = end
                return HandoutSlice(first, end - first + 1, deliveries, is_adjoining)
            lane.chain = None
        return None

    def _first_piece(self, first: int, last: int, wanted: int) -> tuple[int, int | None]:
        """The end of the first events of a run that were delivered equally often, and how often; None for exhausted ones."""
        end, deliveries = last, 0
        if self._backlog.has_history:
            _, end, deliveries = self._backlog.deliveries_over(first, last)[0]
        if self._room.is_over_limit(deliveries):
            self._room.exhaust(first, end)
            return end, None
        return min(end, first + wanted - 1), deliveries

    def _is_adjoining(self, lane: Lane, receiver: Receiver, first: int) -> bool:
        """No position that this holder was not handed lies, or can come to lie, between what it was handed last and `first`."""
        if lane.chain != (receiver, receiver.newest) or first < receiver.newest:
            return False
        return self._backlog.may_span(receiver.newest >> INDEX_BITS, first >> INDEX_BITS)
