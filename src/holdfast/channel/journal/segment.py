"""A segment in use: where it begins and ends, and a sparse index of what is in it.

The index holds one point (number, byte) per 64 KiB or so, never one per entry: ten million entries of a hundred bytes cost
200 KB. It is built as a segment is written; for one found on opening, as it is read for the first time.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence

from holdfast.channel.journal.layout import HEADER_BYTES, Header, segment_name
from holdfast.channel.journal.record import Passage

POINT_SPACING_BYTES = 1 << 16


class Index:
    """Points in ascending order. Everything before byte `covered` is indexed; `next_entry` is the number that comes after it."""

    __slots__ = ("_bytes", "_numbers", "covered", "next_entry")

    def __init__(self, first_entry: int) -> None:
        self._numbers = array("Q")
        self._bytes = array("I")
        self.covered = HEADER_BYTES
        self.next_entry = first_entry

    def note(self, number: int, byte: int) -> None:
        """A command stands at this byte; it becomes a point if the last one is far enough away."""
        if not self._bytes or byte >= self._bytes[-1] + POINT_SPACING_BYTES:
            self._bytes.append(byte)
            self._numbers.append(number)

    def cover(self, passage: Passage) -> None:
        """Take in a passage that begins where the index ends."""
        if passage.byte != self.covered:
            return
        for number, byte in passage.points(POINT_SPACING_BYTES):
            self.note(number, byte)
        self.covered = passage.end
        self.next_entry = passage.next_entry

    def before(self, number: int) -> tuple[int, int]:
        """The last known (number, byte) at or before this number: a point, or the end of what is covered."""
        if number >= self.next_entry:
            return self.next_entry, self.covered
        found = bisect_right(self._numbers, number) - 1
        return self._numbers[found], self._bytes[found]


class Segment:
    """One life of a segment file. `end` is the byte after the last durable record."""

    __slots__ = ("end", "header", "index", "seed")

    def __init__(self, header: Header, end: int = HEADER_BYTES) -> None:
        self.header = header
        self.seed = header.seed
        self.end = end
        self.index = Index(header.first_entry)

    @property
    def generation(self) -> int:
        return self.header.generation

    @property
    def first_entry(self) -> int:
        return self.header.first_entry

    @property
    def number(self) -> int:
        return self.header.number

    @property
    def name(self) -> str:
        return segment_name(self.header.number)

    @property
    def life(self) -> int:
        return self.header.life

    @property
    def left(self) -> int:
        return self.header.segment_bytes - self.end


Chain = tuple[Segment, ...]


def holder_of(chain: Sequence[Segment], number: int) -> int:
    """The index of the segment that holds entry `number`, or would: the last that begins at or before it."""
    return bisect_right(chain, number, key=lambda segment: segment.first_entry) - 1
