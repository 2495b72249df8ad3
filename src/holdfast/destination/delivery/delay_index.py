"""The delay index: batches that a cursor has passed because their time has not come, found again when it has.

    stretch of 4,096 slots ─▶ (not before, slot), ascending, packed into one number each: eight bytes a batch
    heap                   ─▶ the earliest of each stretch

A million delayed batches cost eight megabytes, and taking one out costs no more than taking the first of a few.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import insort

_SLOT_BITS = 12
_SLOT_MASK = (1 << _SLOT_BITS) - 1


class DelayIndex:
    __slots__ = ("_earliest", "_stretches")

    def __init__(self) -> None:
        self._stretches: dict[int, array[int]] = {}
        self._earliest: list[tuple[int, int]] = []  # heap of (packed, stretch); one that is not its stretch's first is outdated

    def __bool__(self) -> bool:
        return bool(self._stretches)

    def __len__(self) -> int:
        return sum(map(len, self._stretches.values()))

    def add(self, slot: int, at_ms: int) -> None:
        """The batch in this slot is due then."""
        number = slot >> _SLOT_BITS
        packed = at_ms << _SLOT_BITS | slot & _SLOT_MASK
        times = self._stretches.setdefault(number, array("Q"))
        insort(times, packed)
        if times[0] == packed:
            heapq.heappush(self._earliest, (packed, number))

    def take_due(self, now_ms: int) -> int | None:
        """Take out a batch whose time has come: its slot; None when there is none."""
        at_ms = self.due_at_ms
        if at_ms is None or at_ms > now_ms:
            return None
        packed, number = heapq.heappop(self._earliest)
        times = self._stretches[number]
        times.pop(0)
        if times:
            heapq.heappush(self._earliest, (times[0], number))
        else:
            del self._stretches[number]
        return number << _SLOT_BITS | packed & _SLOT_MASK

    @property
    def due_at_ms(self) -> int | None:
        while self._earliest:
            packed, number = self._earliest[0]
            times = self._stretches.get(number)
            if times and times[0] == packed:
                return packed >> _SLOT_BITS
            heapq.heappop(self._earliest)
        return None
