"""A segment in use: where it begins and ends, and a sparse index of its entries. `Marks` say which segments are still held.

The index holds one point (number, byte) per 64 KiB or so, never one per entry: ten million entries of a hundred bytes cost
200 KB. It is built as a segment is written. For a segment found on opening it is built as that is read for the first time.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.channel.journal.files.layout import HEADER_BYTES, Header, SnapshotPlace, segment_name
from holdfast.channel.journal.files.record import RELEASED, RELEASED_PAYLOAD, SNAPSHOT_END, SNAPSHOT_END_PAYLOAD, Note, Passage

POINT_SPACING_BYTES = 1 << 16


class Index:
    """Points in ascending order. Everything before byte `covered` is indexed; `next_entry` is the number that stands there."""

    __slots__ = ("_bytes", "_numbers", "covered", "next_entry")

    def __init__(self, first_entry: int) -> None:
        self._numbers = array("Q")
        self._bytes = array("I")
        self.covered = HEADER_BYTES
        self.next_entry = first_entry

    def note(self, number: int, byte: int) -> None:
        """Note that a command stands at this byte; it becomes a point if the last one is far enough away."""
        if not self._bytes or byte >= self._bytes[-1] + POINT_SPACING_BYTES:
            self._bytes.append(byte)
            self._numbers.append(number)

    def cover(self, passage: Passage) -> None:
        """Index a passage that begins where the index ends."""
        if passage.byte != self.covered:
            return
        for number, byte in passage.points(POINT_SPACING_BYTES):
            self.note(number, byte)
        self.covered = passage.end
        self.next_entry = passage.next_entry

    def before(self, number: int) -> tuple[int, int]:
        """Return the last known (number, byte) at or before this number: a point, or the end of the index."""
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
    """Return the index of the segment that holds entry `number`, or would: the last that begins at or before it."""
    return bisect_right(chain, number, key=lambda segment: segment.first_entry) - 1


class Marks(NamedTuple):
    """How far the journal was released, and where its snapshot is: from the newest header and the notes after it.

    Opening finds them, the writer keeps them up to date.
    """

    oldest_generation: int
    snapshot: SnapshotPlace

    def after(self, note: Note, generation: int) -> Marks:
        """Return the marks after this note, which stands in the segment of this generation."""
        if note.kind == RELEASED:
            return self._replace(oldest_generation=RELEASED_PAYLOAD.unpack(note.payload)[0])
        if note.kind == SNAPSHOT_END:
            begun = SNAPSHOT_END_PAYLOAD.unpack(note.payload)
            return self._replace(snapshot=SnapshotPlace._make((*begun, generation, note.byte)))
        return self

    def held(self, segments: Chain) -> tuple[Chain, Chain]:
        """Return the segments that hold entries, and those kept before them for the newest snapshot alone."""
        chain = tuple(segment for segment in segments if segment.generation >= self.oldest_generation)
        earlier = (segment for segment in segments if segment.generation < self.oldest_generation)
        return chain, tuple(segment for segment in earlier if self.snapshot.keeps(segment.generation))
