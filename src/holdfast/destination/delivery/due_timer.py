"""The due timer: keeps what waits for a time, and returns it to the others when the time has come.

not due     delayed by its producer, and passed by a cursor: a batch, kept in the `delay_index` of that cursor's lane or scan
delayed     given back, not before a time: positions, kept in the `delivery_state`
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.delivery.delivery_state import FRESH, Delayed, DeliveryState
from holdfast.destination.delivery.lane import Lane
from holdfast.destination.delivery.view import Scan
from holdfast.event.position import INDEX_BITS, INDEX_MASK, Ranges

# Batches of a lane that are due and not handed out yet: the others stay in the index, in eight bytes each.
DUE_MAX = 1_000


class DueTimer:
    def __init__(self, state: DeliveryState, backlog: Backlog) -> None:
        self._state = state
        self._backlog = backlog
        self._positions = state.positions
        self._delayed = state.delayed

    # --- before the time ---------------------------------------------------------------------------------------------

    def put_off(self, first: int, last: int, not_before_ms: int, by: Lane | Scan) -> None:
        """These are not due. A batch delayed by its producer goes into the index; positions given back late are kept apart."""
        if self._positions.over(first, last) or self._backlog.history.not_before.over(first, last):
            self._state.delay(first, last, not_before_ms)
        else:
            by.delays.add(by.cursor[0], not_before_ms)

    def due(self, first: int, last: int, now_ms: int, scan: Scan) -> list[tuple[int, int]]:
        """The parts of a run that are due, of a run that nobody has; the rest is put off."""
        if not self._backlog.history.not_before and not self._backlog.has_delays:
            return [(first, last)]
        found = []
        for low, high, not_before_ms in self._backlog.not_before_over(first, last):
            if not_before_ms <= now_ms:
                found.append((low, high))
            else:
                self.put_off(low, high, not_before_ms, scan)
        return found

    # --- when it has come --------------------------------------------------------------------------------------------

    def advance(self, now_ms: int) -> None:
        """Return everything that is due at this time."""
        while self._delayed and self._delayed[0][0] <= now_ms:
            not_before_ms, first, last = heapq.heappop(self._delayed)
            for low, high, state in self._positions.over(first, last):
                if state == Delayed(not_before_ms):
                    self._state.forget(low, high)
                    self._state.wait_again(low, high)
        if self._backlog.has_delays:
            self._return_due_batches(now_ms)

    def _return_due_batches(self, now_ms: int) -> None:
        for lane in self._state.lanes:
            while len(lane.returned) < DUE_MAX and (slot := lane.delays.take_due(now_ms)) is not None:
                for first, last in self._fresh_in(slot):
                    self._state.wait_again(first, last)
        for view in self._state.views.values():
            for slot in view.take_due(now_ms):
                for first, last in self._fresh_in(slot):
                    view.came_back(self._backlog.lane_of(first >> INDEX_BITS), first, last)

    def _fresh_in(self, slot: int) -> Iterator[tuple[int, int]]:
        page = self._backlog.page_with(slot)
        if page is None or not page.remaining[slot - page.first_slot]:
            return
        first = self._backlog.entry_at(page, slot - page.first_slot) << INDEX_BITS
        for low, high in list(self._backlog.unfinished(Ranges.of((first, first | INDEX_MASK)))):
            for start, end, state in self._positions.filled(low, high, FRESH):
                if state is FRESH:
                    yield start, end

    @property
    def due_at_ms(self) -> int | None:
        while self._delayed:
            not_before_ms, first, last = self._delayed[0]
            if any(state == Delayed(not_before_ms) for _, _, state in self._positions.over(first, last)):
                break
            heapq.heappop(self._delayed)
        times = [self._delayed[0][0]] if self._delayed else []
        if self._backlog.has_delays:
            lanes = (lane for lane in self._state.lanes if len(lane.returned) < DUE_MAX)
            times += [at for lane in lanes if (at := lane.delays.due_at_ms) is not None]
            times += [at for view in self._state.views.values() if (at := view.due_at_ms) is not None]
        return min(times, default=None)
