"""A position names an event for ever: the number of its entry in the channel and its index in the batch.

    position = entry number × 65,536 + index

Position 0 is no event: entries count from 1. A range of positions is inclusive at both ends, and may span entries of other
destinations: it means only the positions in it that its own destination has.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import ge, gt

INDEX_BITS = 16
INDEX_MASK = (1 << INDEX_BITS) - 1
# Ranges that a sentence names.
TOLD_MAX = 10


def of(entry: int, index: int = 0) -> int:
    return entry << INDEX_BITS | index


def entry_of(position: int) -> int:
    return position >> INDEX_BITS


def index_of(position: int) -> int:
    return position & INDEX_MASK


class Ranges:
    """Ranges of positions, packed: first, last, first, last … as 64-bit numbers. Inclusive, ascending, not overlapping."""

    __slots__ = ("_ends",)

    def __init__(self, ends: array[int] | None = None) -> None:
        self._ends = ends if ends is not None else array("Q")

    @classmethod
    def of(cls, *ranges: tuple[int, int]) -> Ranges:
        return cls.gather(ranges)

    @classmethod
    def gather(cls, ranges: Iterable[tuple[int, int]]) -> Ranges:
        """Make ranges from any order; touching or overlapping ones are joined."""
        made = cls()
        for first, last in sorted(ranges):
            made.add_last(first, last)
        return made

    def add_last(self, first: int, last: int) -> None:
        """Add a range that does not begin before the newest one; joined to it where they touch."""
        ends = self._ends
        if ends and first <= ends[-1] + 1:
            if last > ends[-1]:
                ends[-1] = last
            return
        ends.append(first)
        ends.append(last)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        ends = iter(self._ends)
        return zip(ends, ends, strict=True)

    def __len__(self) -> int:
        return len(self._ends) // 2

    def __bool__(self) -> bool:
        return bool(self._ends)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and self._ends == other._ends

    def __hash__(self) -> int:
        return hash(self._ends.tobytes())

    def __repr__(self) -> str:
        return f"Ranges({', '.join(f'{first}..{last}' for first, last in self)})"

    @property
    def first(self) -> int:
        return self._ends[0]

    @property
    def last(self) -> int:
        return self._ends[-1]

    def without(self, others: Ranges) -> Ranges:
        """The positions of these that are not in the others."""
        made, rest = Ranges(), iter(others)
        taken = next(rest, None)
        for first, last in self:
            while taken is not None and taken[1] < first:
                taken = next(rest, None)
            begin = first
            while taken is not None and taken[0] <= last:
                if begin < taken[0]:
                    made.add_last(begin, taken[0] - 1)
                begin = taken[1] + 1
                if taken[1] > last:
                    break
                taken = next(rest, None)
            if begin <= last:
                made.add_last(begin, last)
        return made

    def common(self, others: Ranges) -> Ranges:
        """The positions of these that are in the others, too. Each of the others costs a search."""
        made, ends = Ranges(), self._ends
        for first, last in others:
            at = bisect_left(ends, first) & ~1
            while at < len(ends) and ends[at] <= last:
                if ends[at + 1] >= first:
                    made.add_last(max(first, ends[at]), min(last, ends[at + 1]))
                at += 2
        return made

    @property
    def count(self) -> int:
        """How many positions these are, of any destination."""
        return sum(self._ends[1::2]) - sum(self._ends[::2]) + len(self)

    def told(self) -> str:
        """The first few, for a sentence."""
        shown = ", ".join(f"{first} to {last}" if first < last else f"{first}" for first, last in islice(self, TOLD_MAX))
        return f"{'positions' if self.count > 1 else 'position'} {shown}{', …' if len(self) > TOLD_MAX else ''}"

    def portions(self, count: int) -> Iterator[Ranges]:
        """The same ranges, at most so many at once."""
        for begin in range(0, len(self._ends), 2 * count):
            yield Ranges(self._ends[begin : begin + 2 * count])

    def to_bytes(self) -> bytes:
        return self._ends.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Ranges:
        """The ranges of `to_bytes`; ValueError for bytes that it cannot have made."""
        ends = array("Q")
        ends.frombytes(data)
        if len(ends) % 2 or any(map(gt, ends[::2], ends[1::2])):
            raise ValueError("ranges have a first and a last, in this order")
        if any(map(ge, ends[1::2], ends[2::2])):
            raise ValueError("ranges are ascending and do not overlap")
        return cls(ends)
