"""What a receiver holds: positions that were handed over and whose verdict is not applied yet. Kept as ranges, never as single
positions.

Slices come in, verdicts take ranges out again: the cost is by slice, and nearly always at the front. After a lost link these
ranges are what the receiver says it still holds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

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
        """A slice was handed over. What of it is held already (it was delivered again) stays as it is."""
        self.remove(first, last)
        at = bisect_left(self._firsts, first)
        self._firsts.insert(at, first)
        self._lasts.insert(at, last)

    def add_one(self, position: int) -> None:
        """One more; nearly always the next."""
        if self._lasts and self._lasts[-1] == position - 1:
            self._lasts[-1] = position
        else:
            self.add(position, position)

    def __contains__(self, position: int) -> bool:
        at = bisect_left(self._lasts, position)
        return at < len(self._lasts) and self._firsts[at] <= position

    def remove(self, first: int, last: int) -> None:
        """These are held no more; a range may be wider than what is held."""
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

    def clear(self) -> None:
        self._firsts.clear()
        self._lasts.clear()

    def copy(self) -> Held:
        made = Held()
        made._firsts = self._firsts.copy()
        made._lasts = self._lasts.copy()
        return made

    def ranges(self) -> Ranges:
        """As what travels. Slices are not joined: between two of them may lie what others hold."""
        made = Ranges()
        for first, last in zip(self._firsts, self._lasts, strict=True):
            made.add_last(first, last)
        return made
