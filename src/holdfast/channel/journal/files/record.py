"""A record: one entry, or one note of the journal to itself, as it stands in a segment.

    ┌──────────────────────────────── head, 24 bytes ────────────────────────────────┐
    │ checksum u32 │ life u32 │ length u24, kind u8 │ group start u32 │ entry u64      │ payload │ zeros to a multiple of 8
    └──────────────────────────────────────────────────────────────────────────────────┘

    checksum      CRC-32C of the rest of the head and the payload, seeded with the segment's life (`Header.seed`) and the byte
                  at which the record stands: neither a record of a former life nor a copy of this one elsewhere passes for it
    life          that of the segment; a search for it finds all records behind a damaged one
    group start   the byte in this segment at which its group (records that are written and synced together) begins
    entry         the number of a command; for other kinds the number that the next command will have

A group is written only after the one before it was synced. Suppose a record is wrong, and behind it stands a right one whose
group starts behind the wrong one. Then the wrong one had been durable: that is damage. Otherwise it belongs to the last group,
which is a torn tail.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

import crc32c

Buffer = bytes | memoryview

HEAD_BYTES = 24
ALIGNMENT = 8
LENGTH_MAX = (1 << 24) - 1

COMMAND = 1
RELEASED = 2
SNAPSHOT_PART = 3
SNAPSHOT_END = 4

_CHECKSUM = struct.Struct("<I")
_REST = struct.Struct("<IIIQ")
_HEAD = struct.Struct("<IIIIQ")
_PADDING = (b"", b"\0" * 7, b"\0" * 6, b"\0" * 5, b"\0" * 4, b"\0" * 3, b"\0" * 2, b"\0")

RELEASED_PAYLOAD = struct.Struct("<Q")  # oldest generation still held
PART_LEAD = struct.Struct("<II")  # index of the part, and whether its chunk goes on
SNAPSHOT_END_PAYLOAD = struct.Struct("<QQII")  # at, generation, byte, parts: of the snapshot that it ends


def padded(length: int) -> int:
    """Return the bytes that a record with a payload of this length takes."""
    return (HEAD_BYTES + length + 7) & ~7


def encode(kind: int, payload: Buffer, entry: int, *, at: int, group: int, life: int, seed: int) -> tuple[Buffer, ...]:
    """Return the record, in pieces, as it must stand at byte `at` of a segment with this life and seed."""
    length = len(payload)
    rest = _REST.pack(life, length | kind << 24, group, entry)
    checksum = crc32c.crc32c(payload, crc32c.crc32c(rest, seed ^ at))
    return _CHECKSUM.pack(checksum), rest, payload, _PADDING[length & 7]


class Note(NamedTuple):
    """A record that is not a command: its kind, its place and its payload."""

    kind: int
    byte: int
    payload: bytes


class Passage:
    """Records read in one piece from a segment: commands with consecutive numbers, and the notes between them.

    `first` is the number of the first command, `byte` where the piece begins, `end` the byte after the last right record.
    Each record costs only 8 bytes in arrays.
    """

    __slots__ = ("_data", "_lengths", "_starts", "byte", "end", "first", "group", "notes")

    def __init__(self, data: bytes, byte: int, first: int) -> None:
        self._data = memoryview(data)
        self._starts = array("I")
        self._lengths = array("I")
        self.byte = byte
        self.end = byte
        self.first = first
        self.group = byte
        self.notes: list[Note] = []

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def size(self) -> int:
        return len(self._data)

    @property
    def next_entry(self) -> int:
        return self.first + len(self._starts)

    def holds(self, number: int) -> bool:
        return self.first <= number < self.first + len(self._starts)

    def command(self, number: int) -> memoryview:
        index = number - self.first
        start = self._starts[index]
        return self._data[start : start + self._lengths[index]]

    def commands(self, number: int, count: int) -> Iterator[memoryview]:
        index = number - self.first
        data = self._data
        starts, lengths = self._starts[index : index + count], self._lengths[index : index + count]
        return (data[start : start + length] for start, length in zip(starts, lengths, strict=True))

    def points(self, spacing: int) -> Iterator[tuple[int, int]]:
        """Yield (number, byte) of a command about every `spacing` bytes, beginning with the first."""
        index = 0
        while index < len(self._starts):
            start = self._starts[index] - HEAD_BYTES
            yield self.first + index, self.byte + start
            index = bisect_left(self._starts, start + HEAD_BYTES + spacing, index + 1)


def scan(data: bytes, byte: int, *, life: int, seed: int, entry: int) -> Passage:
    """Return the right records from the start of `data`, which was read at `byte`, up to the first wrong one.

    A command whose number is not the next one is wrong, too: numbers have no gap.
    """
    passage = Passage(data, byte, entry)
    view, starts, lengths, notes = passage._data, passage._starts, passage._lengths, passage.notes
    unpack, checksum_of, last, at, group = _HEAD.unpack_from, crc32c.crc32c, len(data) - HEAD_BYTES, 0, byte
    while at <= last:
        checksum, found_life, word, group_start, number = unpack(view, at)
        start = at + HEAD_BYTES
        stop = start + (word & LENGTH_MAX)
        if found_life != life or number != entry or stop > len(data):
            break
        if checksum_of(view[at + 4 : stop], seed ^ (byte + at)) != checksum:
            break
        if word >> 24 == COMMAND:
            starts.append(start)
            lengths.append(stop - start)
            entry += 1
        else:
            notes.append(Note(word >> 24, byte + at, bytes(view[start:stop])))
        group = group_start
        at = (stop + 7) & ~7
    passage.end = byte + at
    passage.group = group
    return passage


class Skimmed(NamedTuple):
    """The notes in a piece of a segment, and the byte after the last record that was skipped or taken."""

    notes: list[Note]
    end: int


def skim(data: bytes, byte: int, *, life: int, seed: int) -> Skimmed:
    """Return only the notes in `data`, which was read at `byte`, up to the first wrong one.

    Commands are skipped by the length in their heads, unchecked: a wrong head leads to a place where no right note can stand.
    """
    view, notes, at, last = memoryview(data), [], 0, len(data) - HEAD_BYTES
    unpack = _HEAD.unpack_from
    while at <= last:
        checksum, found_life, word, _, _ = unpack(view, at)
        stop = at + HEAD_BYTES + (word & LENGTH_MAX)
        if found_life != life or stop > len(data):
            break
        if word >> 24 != COMMAND:
            if crc32c.crc32c(view[at + 4 : stop], seed ^ (byte + at)) != checksum:
                break
            notes.append(Note(word >> 24, byte + at, bytes(view[at + HEAD_BYTES : stop])))
        at = (stop + 7) & ~7
    return Skimmed(notes, byte + at)


class RecordHead(NamedTuple):
    kind: int
    length: int
    entry: int


def head_at(data: bytes, life: int) -> RecordHead | None:
    """Return the head that `data` begins with, if it is of this life; nothing is checked."""
    if len(data) < HEAD_BYTES:
        return None
    _, found_life, word, _, entry = _HEAD.unpack_from(data)
    return RecordHead(word >> 24, word & LENGTH_MAX, entry) if found_life == life else None


def length_at(data: bytes, at: int, life: int) -> int | None:
    """Return the length in the head at `at`, if it is a head of this life; nothing is checked."""
    if at + HEAD_BYTES > len(data):
        return None
    _, found_life, word, _, _ = _HEAD.unpack_from(data, at)
    return word & LENGTH_MAX if found_life == life else None


class Stray(NamedTuple):
    """A right record behind a wrong one."""

    byte: int
    end: int
    group: int


def strays(data: bytes, byte: int, *, life: int, seed: int) -> Iterator[Stray]:
    """Yield every right record of this life anywhere in `data`, which was read at `byte`, a multiple of 8."""
    view, pattern, found = memoryview(data), life.to_bytes(4, "little"), -1
    while (found := data.find(pattern, found + 1)) >= 0:
        at = found - 4
        if at % ALIGNMENT or at < 0 or at + HEAD_BYTES > len(data):
            continue
        checksum, _, word, group, _ = _HEAD.unpack_from(view, at)
        stop = at + HEAD_BYTES + (word & LENGTH_MAX)
        if stop <= len(data) and crc32c.crc32c(view[at + 4 : stop], seed ^ (byte + at)) == checksum:
            yield Stray(byte + at, byte + stop, group)
