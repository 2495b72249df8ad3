"""A position names an event for ever: the number of its entry in the channel and its index in the batch.

    position = entry number × 65,536 + index

Position 0 is no event: entries count from 1. A range of positions is inclusive at both ends, and may span entries
of other destinations; it means those positions in it that the destination it is said of has.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

INDEX_BITS = 16
INDEX_MASK = (1 << INDEX_BITS) - 1


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
        """From ranges in any order, touching or overlapping ones joined."""
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

    def portions(self, count: int) -> Iterator[Ranges]:
        """The same ranges, at most so many at once."""
        for begin in range(0, len(self._ends), 2 * count):
            yield Ranges(self._ends[begin : begin + 2 * count])

    def to_bytes(self) -> bytes:
        return self._ends.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Ranges:
        """ValueError for what `to_bytes` cannot have made."""
        ends = array("Q")
        ends.frombytes(data)
        if len(ends) % 2 or any(first > last for first, last in zip(ends[::2], ends[1::2], strict=True)):
            raise ValueError("ranges have a first and a last, in this order")
        if any(last >= first for last, first in zip(ends[1::2], ends[2::2], strict=False)):
            raise ValueError("ranges are ascending and do not overlap")
        return cls(ends)
