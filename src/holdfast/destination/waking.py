"""Waking: what waits for a time, and waits no longer when it has come.

asleep      delayed by its producer, and passed by a cursor: a batch, kept with that cursor's lane or scan
delayed     given back, not before a time: positions, kept in the waiting room
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from holdfast.destination.backlog import Backlog
from holdfast.destination.lane import Lane
from holdfast.destination.standing import FRESH, Delayed
from holdfast.destination.view import Scan
from holdfast.destination.waiting_room import WaitingRoom
from holdfast.event.position import INDEX_BITS, INDEX_MASK, Ranges

# Batches of a lane that are woken and not handed out yet: the others go on sleeping, in eight bytes each.
AWAKE_MAX = 1_000


class Waking:
    def __init__(self, room: WaitingRoom, backlog: Backlog) -> None:
        self._room = room
        self._backlog = backlog
        self._standing = room.standing
        self._delayed = room.delayed

    # --- falling asleep ----------------------------------------------------------------------------------------------

    def sleep(self, first: int, last: int, not_before_ms: int, by: Lane | Scan) -> None:
        """These are not due: what its producer delayed sleeps by batch; what was given back with a delay is kept by itself."""
        if self._standing.over(first, last) or self._backlog.history.not_before.over(first, last):
            self._room.delay(first, last, not_before_ms)
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
                self.sleep(low, high, not_before_ms, scan)
        return found

    # --- waking up ---------------------------------------------------------------------------------------------------

    def wake(self, now_ms: int) -> None:
        """What is due waits no longer for its time."""
        while self._delayed and self._delayed[0][0] <= now_ms:
            not_before_ms, first, last = heapq.heappop(self._delayed)
            for low, high, state in self._standing.over(first, last):
                if state == Delayed(not_before_ms):
                    self._room.forget(low, high)
                    self._room.wait_again(low, high)
        if self._backlog.has_delays:
            self._wake_sleepers(now_ms)

    def _wake_sleepers(self, now_ms: int) -> None:
        for lane in self._room.lanes:
            while len(lane.returned) < AWAKE_MAX and (slot := lane.asleep.wake(now_ms)) is not None:
                for first, last in self._fresh_in(slot):
                    self._room.wait_again(first, last)
        for view in self._room.views.values():
            for slot in view.awoken(now_ms):
                for first, last in self._fresh_in(slot):
                    view.came_back(self._backlog.lane_of(first >> INDEX_BITS), first, last)

    def _fresh_in(self, slot: int) -> Iterator[tuple[int, int]]:
        page = self._backlog.page_with(slot)
        if page is None or not page.remaining[slot - page.first_slot]:
            return
        first = self._backlog.entry_at(page, slot - page.first_slot) << INDEX_BITS
        for low, high in list(self._backlog.unfinished(Ranges.of((first, first | INDEX_MASK)))):
            for start, end, state in self._standing.filled(low, high, FRESH):
                if state is FRESH:
                    yield start, end

    @property
    def wake_at_ms(self) -> int | None:
        while self._delayed:
            not_before_ms, first, last = self._delayed[0]
            if any(state == Delayed(not_before_ms) for _, _, state in self._standing.over(first, last)):
                break
            heapq.heappop(self._delayed)
        times = [self._delayed[0][0]] if self._delayed else []
        times += [
            at for lane in self._room.lanes if len(lane.returned) < AWAKE_MAX and (at := lane.asleep.wake_at_ms) is not None
        ]
        times += [at for view in self._room.views.values() if (at := view.wake_at_ms) is not None]
        return min(times, default=None)
