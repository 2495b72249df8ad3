"""Runs: a value for some positions, kept as runs of equal value, found by the entry they belong to.

    entry 7    │ 2..9: 'a' │ 10..10: 'b' │          what is not in a run has no value

Four things are kept this way: how often positions came back and why, before when they must not be delivered again, and who
holds them. All of them concern few positions at a time, mostly whole slices of a batch: each such batch costs one small list, the
others nothing. A run never reaches over the end of its entry. Touching runs of equal value are one run, so that equal contents
look equal however they came about.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Generic, TypeVar

from holdfast.event.position import INDEX_BITS

Value = TypeVar("Value")
Run = tuple[int, int, Value]  # first position, last position, value


class Runs(Generic[Value]):
    __slots__ = ("_by_entry",)

    def __init__(self) -> None:
        self._by_entry: dict[int, list[Run[Value]]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_entry)

    def __len__(self) -> int:
        """How many entries have a run."""
        return len(self._by_entry)

    def __iter__(self) -> Iterator[Run[Value]]:
        """All runs, in the order of their positions."""
        for entry in sorted(self._by_entry):
            yield from self._by_entry[entry]

    def has(self, entry: int) -> bool:
        return entry in self._by_entry

    def of_entry(self, entry: int) -> list[Run[Value]]:
        return self._by_entry.get(entry, [])

    def over(self, first: int, last: int) -> list[Run[Value]]:
        """The runs within first .. last (of one entry), cut to it."""
        runs = self._by_entry.get(first >> INDEX_BITS)
        if runs is None:
            return []
        start, end = _touched(runs, first, last)
        return [(max(low, first), min(high, last), value) for low, high, value in runs[start:end]]

    def filled(self, first: int, last: int, default: Value) -> list[Run[Value]]:
        """The runs over first .. last without a gap: positions without a value have the default."""
        made: list[Run[Value]] = []
        for low, high, value in self.over(first, last):
            if first < low:
                made.append((first, low - 1, default))
            made.append((low, high, value))
            first = high + 1
        if first <= last:
            made.append((first, last, default))
        return made

    def cut(self, first: int, last: int) -> list[Run[Value]]:
        """Take the values off first .. last (of one entry); the runs that were there."""
        entry = first >> INDEX_BITS
        runs = self._by_entry.get(entry)
        if runs is None:
            return []
        start, end = _touched(runs, first, last)
        taken = runs[start:end]
        if not taken:
            return []
        rest: list[Run[Value]] = []
        low, _, value = taken[0]
        if low < first:
            rest.append((low, first - 1, value))
        _, high, value = taken[-1]
        if high > last:
            rest.append((last + 1, high, value))
        runs[start:end] = rest
        if not runs:
            del self._by_entry[entry]
        return [(max(low, first), min(high, last), value) for low, high, value in taken]

    def put(self, first: int, last: int, value: Value) -> None:
        """Give first .. last (of one entry) this value, whatever they had before."""
        entry = first >> INDEX_BITS
        if entry not in self._by_entry:
            self._by_entry[entry] = [(first, last, value)]
            return
        self.cut(first, last)
        runs = self._by_entry.setdefault(entry, [])
        at = bisect_left(runs, (first,))
        if at < len(runs) and runs[at][0] == last + 1 and runs[at][2] == value:
            last = runs.pop(at)[1]
        if at and runs[at - 1][1] == first - 1 and runs[at - 1][2] == value:
            at -= 1
            first = runs.pop(at)[0]
        runs.insert(at, (first, last, value))


def _touched(runs: list[Run[Value]], first: int, last: int) -> tuple[int, int]:
    """Which runs (start, end) have a position in first .. last."""
    start = bisect_left(runs, (first,))
    if start and runs[start - 1][1] >= first:
        start -= 1
    return start, bisect_left(runs, (last + 1,))


# --- bits of a number, for the events of one batch -----------------------------------------------------------------------


def bits(first: int, last: int) -> int:
    """A number whose bits first .. last are set."""
    return (1 << last + 1) - (1 << first)


def runs_of(number: int) -> Iterator[tuple[int, int]]:
    """The runs of set bits, lowest first, as (first, last)."""
    base = 0
    while number:
        zeros = (number & -number).bit_length() - 1
        number >>= zeros
        base += zeros
        ones = (~number & number + 1).bit_length() - 1
        yield base, base + ones - 1
        number >>= ones
        base += ones
