"""A set of positions, kept as ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from holdfast.event.position import Ranges

Run = tuple[int, int]  # first and last position, both included


class PositionSet:
    """Ranges that ascend and do not touch. Adding at the end, and removing at the beginning, cost little."""

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in runs:
            self.add(first, last)

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __iter__(self) -> Iterator[Run]:
        return zip(self._firsts, self._lasts, strict=True)

    @property
    def count(self) -> int:
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def add(self, first: int, last: int) -> None:
        begin = bisect_left(self._lasts, first - 1)
        end = bisect_right(self._firsts, last + 1)
        if begin < end:
            first, last = min(first, self._firsts[begin]), max(last, self._lasts[end - 1])
        self._firsts[begin:end] = [first]
        self._lasts[begin:end] = [last]

    def remove(self, first: int, last: int) -> None:
        begin = bisect_left(self._lasts, first)
        end = bisect_right(self._firsts, last)
        if begin >= end:
            return
        left = [(self._firsts[begin], first - 1)] if self._firsts[begin] < first else []
        right = [(last + 1, self._lasts[end - 1])] if self._lasts[end - 1] > last else []
        self._firsts[begin:end] = [run[0] for run in (*left, *right)]
        self._lasts[begin:end] = [run[1] for run in (*left, *right)]

    def within(self, first: int, last: int) -> list[Run]:
        """The parts of this range that are in the set."""
        places = range(bisect_left(self._lasts, first), bisect_right(self._firsts, last))
        return [(max(first, self._firsts[at]), min(last, self._lasts[at])) for at in places]

    def without(self, first: int, last: int) -> list[Run]:
        """The parts of this range that are not in the set."""
        made, begin = [], first
        for low, high in self.within(first, last):
            if begin < low:
                made.append((begin, low - 1))
            begin = high + 1
        return [*made, (begin, last)] if begin <= last else made

    def covers(self, first: int, last: int) -> bool:
        return not self.without(first, last)

    def ranges(self) -> Ranges:
        return Ranges.gather(self)
