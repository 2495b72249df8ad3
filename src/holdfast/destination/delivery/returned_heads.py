"""Returned heads: events that came back to a view, and whose heads it must read before it goes on.

    put     (7, 2..9) at priority 4, (7, 4..5) again       each event is in it once, at the most urgent priority it was put with
    take    the most urgent first, then the first placed

`_runs` has exactly what is to be read. The heap only points to it: a pointer may be out of date, and most of them may be, for a
view whose receivers have no credit and which nobody empties. Then the heap is built again, so that it grows with what waits only.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from holdfast.destination.backlog.runs import Runs

# Pointers that are out of date are thrown away when there are this many more of them than entries that they could point to.
POINTERS_SLACK = 1_000
URGENT = -1_000  # before every priority
_ABSENT = 1  # after every priority


class ReturnedHeads:
    def __init__(self, place_of: Callable[[int], int]) -> None:
        self._place_of = place_of
        self._runs: Runs[int] = Runs()  # the priority, negative
        self._heap: list[tuple[int, int, int, int]] = []  # the priority, negative; place, first, last

    def __bool__(self) -> bool:
        return bool(self._runs)

    def __len__(self) -> int:
        """Count the pointers: no fewer than the runs that wait to be read."""
        return len(self._heap)

    @property
    def is_urgent(self) -> bool:
        """Something is to be read even while nobody has credit."""
        return bool(self._heap) and bool(self._runs) and self._heap[0][0] == URGENT

    def put(self, descent: int, first: int, last: int) -> None:
        """Read these (of one entry). `descent` is the priority, negative, or URGENT."""
        for low, high, known in self._runs.filled(first, last, _ABSENT):
            if descent < known:
                self._runs.put(low, high, descent)
                self._point(descent, low, high)
        if len(self._heap) > 2 * len(self._runs) + POINTERS_SLACK:
            self._rebuild()

    def take(self) -> tuple[int, int, list[tuple[int, int]]]:
        """The next priority, negative, the place, and the parts (first, last) that are still to be read, perhaps none."""
        descent, place, first, last = heapq.heappop(self._heap)
        parts = [(low, high) for low, high, known in self._runs.over(first, last) if known == descent]
        for low, high in parts:
            self._runs.cut(low, high)
        if not self._runs:
            self._heap.clear()
        return descent, place, parts

    def forget(self, first: int, last: int) -> None:
        """These are finished."""
        if self._runs:
            self._runs.cut(first, last)

    def _point(self, descent: int, first: int, last: int) -> None:
        heapq.heappush(self._heap, (descent, self._place_of(first), first, last))

    def _rebuild(self) -> None:
        self._heap.clear()
        for first, last, descent in self._runs:
            self._point(descent, first, last)
