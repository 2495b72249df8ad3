"""The positions that a receiver holds: they were handed over, and no verdict on them is applied yet.

They are kept as ranges, never as single positions. Slices come in, verdicts take ranges out again: the cost is by slice, and
nearly always at the front. After a lost link the receiver tells the server these ranges.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from holdfast.event.position import Ranges


class Held:
    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __len__(self) -> int:
        return len(self._firsts)

    def add(self, first: int, last: int) -> None:
        """Add a slice that was handed over. Positions of it that are held already (it was delivered again) are held once."""
        self.remove(first, last)
        at = bisect_left(self._firsts, first)
        self._firsts.insert(at, first)
        self._lasts.insert(at, last)

    def add_one(self, position: int) -> None:
        """Add one position; nearly always the next."""
        if self._lasts and self._lasts[-1] == position - 1:
            self._lasts[-1] = position
        else:
            self.add(position, position)

    def __contains__(self, position: int) -> bool:
        at = bisect_left(self._lasts, position)
        return at < len(self._lasts) and self._firsts[at] <= position

    def remove(self, first: int, last: int) -> None:
        """Remove a range, which may be wider than what is held."""
        begin = bisect_left(self._lasts, first)
        end = bisect_right(self._firsts, last)
        if begin >= end:
            return
        firsts: list[int] = []
        lasts: list[int] = []
        if self._firsts[begin] < first:
            firsts.append(self._firsts[begin])
            lasts.append(first - 1)
        if self._lasts[end - 1] > last:
            firsts.append(last + 1)
            lasts.append(self._lasts[end - 1])
        self._firsts[begin:end] = firsts
        self._lasts[begin:end] = lasts

    def within(self, ranges: Ranges) -> Iterator[tuple[int, int]]:
        """The parts of these ranges that are held."""
        for first, last in ranges:
            for at in range(bisect_left(self._lasts, first), bisect_right(self._firsts, last)):
                yield max(first, self._firsts[at]), min(last, self._lasts[at])

    def clear(self) -> None:
        self._firsts.clear()
        self._lasts.clear()

    def copy(self) -> Held:
        made = Held()
        made._firsts = self._firsts.copy()
        made._lasts = self._lasts.copy()
        return made

    def ranges(self) -> Ranges:
        """The ranges as they travel. Slices are not joined: others may hold positions between two of them."""
        made = Ranges()
        for first, last in zip(self._firsts, self._lasts, strict=True):
            made.add_last(first, last)
        return made
