"""Delivery: who holds what of one backlog, and who gets what next. Only a primary has it; `apply` never asks it (rule 3).

    fresh        at or after the cursor: never handed out by this primary
    held         in flight with a holder
    returned     waiting again: goes out before anything fresh, first placed first
    delayed      waiting again, not before a time
    exhausted    redelivered as often as allowed: the shell asks for it and issues `Dead`

    what happens           fresh      held        returned    delayed     exhausted
    next                   held       -           held        -           -
    returned               fresh      returned or delayed, or exhausted when the limit is reached
    finished               forgotten in every place
    detach of its holder   -          returned    -           -           -
    its time has come      -          -           -           returned    -

Only what is not fresh is remembered, as runs of positions: memory is bounded by what is in flight or has come back, and the
cost of everything is per slice, never per event. Holders with credit take turns; a holder without costs nothing.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Iterable
from typing import NamedTuple

from holdfast.destination.backlog import Backlog
from holdfast.destination.credit import Line, Receiver
from holdfast.destination.receivers import Holder
from holdfast.destination.runs import Runs
from holdfast.event.position import INDEX_BITS, INDEX_MASK, Ranges

# Hints that are out of date are thrown away when there are this many more of them than runs they could point to.
HINTS_SLACK = 1_000


class HandoutSlice(NamedTuple):
    """A run of positions of one batch that were delivered equally often. `is_adjoining` as in a frame's `Slice`."""

    first: int
    events: int
    deliveries: int
    is_adjoining: bool


class Handout(NamedTuple):
    holder: Holder
    slices: list[HandoutSlice]


class _Waiting(enum.Enum):
    FRESH = 0  # never kept
    RETURNED = 1
    EXHAUSTED = 2


class _Delayed(NamedTuple):
    not_before_ms: int


_State = Receiver | _Delayed | _Waiting
FRESH, RETURNED, EXHAUSTED = _Waiting.FRESH, _Waiting.RETURNED, _Waiting.EXHAUSTED


class Delivery:
    def __init__(self, backlog: Backlog, redelivery_limit: int = 0) -> None:
        """`redelivery_limit`: how often an event is delivered again before it is given up; 0 for no limit."""
        self.in_flight = 0
        self.delivered_up_to = backlog.history.delivered_up_to
        self._backlog = backlog
        self._limit = redelivery_limit
        self._receivers: dict[Holder, Receiver] = {}
        self._line = Line()
        self._states: Runs[_State] = Runs()
        self._cursor = (0, 0)  # slot and index of the first fresh place
        self._is_at_end = False
        self._chain: tuple[Receiver, int] | None = (
            None  # who was handed which position just before the cursor, nothing passed over
        )
        self._returned: list[tuple[int, int, int]] = []  # heap of hints: place, first, last
        self._delayed: list[tuple[int, int, int]] = []  # heap of hints: not before, first, last
        self._exhausted: list[tuple[int, int]] = []

    # --- holders and their credit ------------------------------------------------------------------------------------

    def attach(self, holder: Holder, held: Ranges) -> None:
        """A holder comes (again), holding these. What it was thought to hold beside them is delivered again."""
        self.detach(holder)
        receiver = self._receivers[holder] = Receiver(holder)
        for first, last in self._backlog.unfinished(held):
            for low, high, state in self._states.filled(first, last, FRESH):
                if not isinstance(state, Receiver):
                    self._hold(receiver, low, high)

    def detach(self, holder: Holder) -> Ranges:
        """A holder is gone: what it held (the answer) is to be delivered again."""
        receiver = self._receivers.pop(holder, None)
        if receiver is None:
            return Ranges()
        receiver.events = 0
        held = self._held_by(receiver)
        for first, last in held:
            self._forget(first, last)
            self._put_back(first, last, 0)
        return Ranges.gather(held)

    def held(self, holder: Holder) -> Ranges:
        receiver = self._receivers.get(holder)
        return Ranges.gather(self._held_by(receiver)) if receiver else Ranges()

    def holders(self) -> list[Holder]:
        return list(self._receivers)

    def grant(self, holder: Holder, events: int, bytes: int) -> None:
        receiver = self._receivers.get(holder)
        if receiver is not None:
            receiver.events += events
            receiver.bytes += bytes
            self._line.join(receiver)

    def charge(self, holder: Holder, bytes: int) -> None:
        """So many bytes were sent to it; with no credit in bytes left it gets nothing more."""
        receiver = self._receivers.get(holder)
        if receiver is not None:
            receiver.bytes -= bytes

    def revoke(self, holder: Holder) -> None:
        """Its link is lost: its credit is void. It keeps what it holds until it attaches again or is detached."""
        receiver = self._receivers.get(holder)
        if receiver is not None:
            receiver.events = receiver.bytes = 0

    def has_credit(self, holder: Holder) -> bool:
        receiver = self._receivers.get(holder)
        return receiver is not None and receiver.has_credit

    # --- what happens to the backlog ---------------------------------------------------------------------------------

    def placed(self, first: int, events: int) -> None:
        """Something new waits at the end of the backlog, where the cursor will come to it."""
        self._is_at_end = False

    def finished(self, ranges: Ranges) -> None:
        for first, last in ranges:
            self._forget(first, last)

    def returned(self, ranges: Ranges, not_before_ms: int, session: str = "") -> None:
        """These wait again; if a session released them, those that another one holds stay with it.

        Those that are fresh stay so: the cursor has not come to them.
        """
        for first, last in self._backlog.unfinished(ranges):
            for low, high, state in self._states.filled(first, last, FRESH):
                if session and isinstance(state, Receiver) and state.holder[0] != session:
                    continue
                if state is not FRESH or self._backlog.place_of(low) < self._cursor_place():
                    self._forget(low, high)
                    self._put_back(low, high, not_before_ms)

    def prefer(self, ranges: Ranges) -> None:
        """These fresh ones go out before all others, in the order in which they were placed (after a start, A7)."""
        for first, last in self._backlog.unfinished(ranges):
            self._wait_again(first, last)

    def give_back(self, holder: Holder, slices: Iterable[HandoutSlice]) -> None:
        """These slices of a handout were not sent after all."""
        receiver = self._receivers.get(holder)
        if receiver is None:
            return
        for handed in slices:
            for first, last, state in self._states.over(handed.first, handed.first + handed.events - 1):
                if state is receiver:
                    self._forget(first, last)
                    self._wait_again(first, last)
                    receiver.events += last - first + 1
        receiver.newest = 0
        self._line.join(receiver)

    # --- handing out -------------------------------------------------------------------------------------------------

    def next(self, now_ms: int, events_max: int = 1000) -> Handout | None:
        """What the next holder gets: at most `events_max` events. None when nobody has credit or there is nothing to deliver."""
        self._wake_delayed(now_ms)
        receiver = self._line.first()
        if receiver is None:
            return None
        slices: list[HandoutSlice] = []
        wanted = min(events_max, receiver.events)
        while wanted > 0 and (handed := self._next_slice(receiver, wanted, now_ms)) is not None:
            slices.append(handed)
            wanted -= handed.events
        if not slices:
            return None
        receiver.events -= sum(handed.events for handed in slices)
        self._line.next()
        return Handout(receiver.holder, slices)

    def is_ready(self, now_ms: int) -> bool:
        """There is something to do: a handout to be made, or exhausted events to be given up."""
        self._wake_delayed(now_ms)
        if self._exhausted:
            return True
        return self._line.first() is not None and (bool(self._returned) or self._fresh_run(now_ms) is not None)

    def take_exhausted(self) -> Ranges:
        """What was redelivered as often as allowed; told once.

        When it cannot be given up, say `returned` and it is told again.
        """
        taken, self._exhausted = self._exhausted, []
        return Ranges.gather(taken)

    @property
    def wake_at_ms(self) -> int | None:
        """When the next delayed event may be delivered."""
        while self._delayed:
            not_before_ms, first, last = self._delayed[0]
            if any(state == _Delayed(not_before_ms) for _, _, state in self._states.over(first, last)):
                return not_before_ms
            heapq.heappop(self._delayed)
        return None

    # --- finding the next slice --------------------------------------------------------------------------------------

    def _next_slice(self, receiver: Receiver, wanted: int, now_ms: int) -> HandoutSlice | None:
        while (run := self._returned_run()) is not None:
            first, last = run
            end, deliveries = self._first_piece(first, last, wanted)
            if end < last:
                self._hint(end + 1, last)
            if deliveries is not None:
                return self._hand(receiver, first, end, deliveries, first == receiver.newest + 1)
        while (fresh := self._fresh_run(now_ms)) is not None:
            first, last = fresh
            end, deliveries = self._first_piece(first, last, wanted)
            is_adjoining = self._is_adjoining(receiver, first)
            self._cursor = (self._cursor[0], (end & INDEX_MASK) + 1)
            self._chain = (receiver, end) if deliveries is not None else None
            if deliveries is not None:
                return self._hand(receiver, first, end, deliveries, is_adjoining)
        return None

    def _first_piece(self, first: int, last: int, wanted: int) -> tuple[int, int | None]:
        """The end of the first events of a run that were delivered equally often, and how often; None for exhausted ones."""
        end, deliveries = last, 0
        if self._backlog.has_history:
            _, end, deliveries = self._backlog.deliveries_over(first, last)[0]
        if self._is_over_limit(deliveries):
            self._exhaust(first, end)
            return end, None
        return min(end, first + wanted - 1), deliveries

    def _hand(self, receiver: Receiver, first: int, last: int, deliveries: int, is_adjoining: bool) -> HandoutSlice:
        self._hold(receiver, first, last)
        receiver.newest = last
        return HandoutSlice(first, last - first + 1, deliveries, is_adjoining)

    def _is_adjoining(self, receiver: Receiver, first: int) -> bool:
        """No position that this holder was not handed lies, or can come to lie, between what it was handed last and `first`."""
        if first == receiver.newest + 1:
            return True
        if self._chain != (receiver, receiver.newest) or first < receiver.newest:
            return False
        return self._backlog.may_span(receiver.newest >> INDEX_BITS, first >> INDEX_BITS)

    def _returned_run(self) -> tuple[int, int] | None:
        """The first returned positions in placement order. Their hint is taken away."""
        while self._returned:
            _, first, last = heapq.heappop(self._returned)
            for low, high, state in self._states.over(first, last):
                if state is RETURNED:
                    if high < last:
                        self._hint(high + 1, last)
                    return low, high
        return None

    def _fresh_run(self, now_ms: int) -> tuple[int, int] | None:
        """The first fresh positions; the cursor is moved to them."""
        while not self._is_at_end:
            run = self._backlog.next_run(*self._cursor)
            if run is None:
                self._cursor = (self._backlog.next_slot, 0)
                self._is_at_end = True
                break
            slot, first, events = run
            self._cursor = (slot, first & INDEX_MASK)
            last = self._pass_over(first, first + events - 1, now_ms)
            if last >= first:
                return first, last
        return None

    def _pass_over(self, first: int, last: int, now_ms: int) -> int:
        """The end of what is fresh and due from `first` on; when that is nothing, the cursor goes past what is not."""
        state: _State = FRESH
        if self._states.has(first >> INDEX_BITS):
            _, last, state = self._states.filled(first, last, FRESH)[0]
        if state is FRESH:
            if not self._backlog.history.not_before:
                return last
            _, last, not_before_ms = self._backlog.not_before_over(first, last)[0]
            if not_before_ms <= now_ms:
                return last
            self._delay(first, last, not_before_ms)
        self._cursor = (self._cursor[0], (last & INDEX_MASK) + 1)
        self._chain = None
        return first - 1

    def _wake_delayed(self, now_ms: int) -> None:
        while self._delayed and self._delayed[0][0] <= now_ms:
            not_before_ms, first, last = heapq.heappop(self._delayed)
            for low, high, state in self._states.over(first, last):
                if state == _Delayed(not_before_ms):
                    self._wait_again(low, high)

    # --- changing the state of positions -----------------------------------------------------------------------------

    def _hold(self, receiver: Receiver, first: int, last: int) -> None:
        self._states.put(first, last, receiver)
        receiver.entries[first >> INDEX_BITS] = None
        self.in_flight += last - first + 1
        self.delivered_up_to = max(self.delivered_up_to, last)

    def _put_back(self, first: int, last: int, not_before_ms: int) -> None:
        for low, high, deliveries in self._backlog.deliveries_over(first, last):
            if self._is_over_limit(deliveries):
                self._exhaust(low, high)
            elif not_before_ms:
                self._delay(low, high, not_before_ms)
            else:
                self._wait_again(low, high)

    def _wait_again(self, first: int, last: int) -> None:
        self._states.put(first, last, RETURNED)
        self._hint(first, last)

    def _delay(self, first: int, last: int, not_before_ms: int) -> None:
        self._states.put(first, last, _Delayed(not_before_ms))
        heapq.heappush(self._delayed, (not_before_ms, first, last))
        self._bound_hints()

    def _exhaust(self, first: int, last: int) -> None:
        self._states.put(first, last, EXHAUSTED)
        self._exhausted.append((first, last))

    def _forget(self, first: int, last: int) -> None:
        for low, high, state in self._states.cut(first, last):
            if isinstance(state, Receiver):
                self.in_flight -= high - low + 1
                entry = low >> INDEX_BITS
                if not any(other is state for _, _, other in self._states.of_entry(entry)):
                    state.entries.pop(entry, None)

    def _held_by(self, receiver: Receiver) -> list[tuple[int, int]]:
        return [
            (first, last)
            for entry in receiver.entries
            for first, last, state in self._states.of_entry(entry)
            if state is receiver
        ]

    def _is_over_limit(self, deliveries: int) -> bool:
        return 0 < self._limit < deliveries

    def _cursor_place(self) -> int:
        return self._cursor[0] << INDEX_BITS | self._cursor[1]

    def _hint(self, first: int, last: int) -> None:
        heapq.heappush(self._returned, (self._backlog.place_of(first), first, last))
        self._bound_hints()

    def _bound_hints(self) -> None:
        """Holders that come and go without taking anything leave hints behind: begin anew when most are out of date."""
        if len(self._returned) + len(self._delayed) <= 2 * len(self._states) + HINTS_SLACK:
            return
        runs = list(self._states)
        self._returned = [(self._backlog.place_of(first), first, last) for first, last, state in runs if state is RETURNED]
        self._delayed = [(state.not_before_ms, first, last) for first, last, state in runs if isinstance(state, _Delayed)]
        heapq.heapify(self._returned)
        heapq.heapify(self._delayed)
