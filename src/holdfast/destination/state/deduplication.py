"""Deduplication: the events that a destination has taken lately, so that an event sent again is known as a repetition.

    (user, source, id) ──▶ key, 16 bytes ──▶ position of the first, and when it was placed

    records   key 16 │ position u64 │ time u64, in the order of placement, in chunks of 1,024
    index     numbers of records u32, open addressing, in 256 shards: to grow one takes a few milliseconds at most

An event takes some 44 bytes (32, and 8 to 16 of the index), for as long as its destination says. Time is that of the commands
that place something in any such destination, and never goes back: without them nothing is forgotten. There is room for
REMEMBERED_MAX events; past that the oldest are forgotten early, and the destination says so for as long as its window is shorter
than it was set.

This module reads no clock: the same commands give the same answers wherever they are applied.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from holdfast.errors import BatchDamaged
from holdfast.event import batch as batches
from holdfast.event import identifier
from holdfast.event.event import NOT_READABLE

KEY_BYTES = 16
# The longest key of BLAKE2b; a user's name is no longer.
USER_BYTES_MAX = 64
# Some 44 MB for one destination: half an hour at 500 events a second.
REMEMBERED_MAX = 1_000_000

_CHUNK_BITS = 10
_CHUNK = 1 << _CHUNK_BITS
_CHUNK_MASK = _CHUNK - 1
_SHARDS = 256
_SHARD_SLOTS_MIN = 8
# Numbers of records in the index: 0 is an empty slot, so the others wrap around one earlier.
_NUMBERS = (1 << 32) - 1
_ID_MASK = (1 << 128) - 1

# (index of the first event, how many, position of what the first of them repeats); the others repeat the positions after it.
RepeatedRun = tuple[int, int, int]
Repeated = tuple[RepeatedRun, ...]


# --- keys ------------------------------------------------------------------------------------------------------------


class _Named(msgspec.Struct, gc=False):
    """The fields of a head that identify the event."""

    id: str | None = msgspec.field(default=None, name="i")
    source: str | None = msgspec.field(default=None, name="s")


_decode_named = msgspec.msgpack.Decoder(_Named).decode
_UNNAMED = _Named()


def keys_of(data: bytes | memoryview, user: str = "") -> bytes:
    """The keys of the events of a batch, one after the other; none for a batch that cannot be read.

    Each user has keys of their own: otherwise a user could send another's source and id first, and that one's event would be
    taken for a repetition.
    """
    try:
        read = batches.Batch(data)
    except BatchDamaged:
        return b""
    of_source: dict[str, hashlib.blake2b] = {}
    return b"".join(
        _key(of_source, user, read.source if named.source is None else named.source, _identity(named.id, read.first_id + index))
        for index, named in enumerate(map(_named, map(read.head, range(read.count))))
    )


def _named(head: memoryview) -> _Named:
    try:
        return _decode_named(head)
    except NOT_READABLE:
        return _UNNAMED


def _identity(given: str | None, counted: int) -> bytes:
    """The bytes of an id. An id given as text is the same as one that was counted."""
    if given is None:
        return (counted & _ID_MASK).to_bytes(KEY_BYTES, "big")
    if identifier.is_text(given):
        return identifier.from_text(given).to_bytes(KEY_BYTES, "big")
    return b"/" + given.encode()


def _key(of_source: dict[str, hashlib.blake2b], user: str, source: str, identity: bytes) -> bytes:
    if source not in of_source:
        encoded = source.encode()
        named = len(encoded).to_bytes(4, "little") + encoded
        of_source[source] = hashlib.blake2b(named, digest_size=KEY_BYTES, key=user.encode()[:USER_BYTES_MAX])
    made = of_source[source].copy()
    made.update(identity)
    return made.digest()


# --- the memory ------------------------------------------------------------------------------------------------------


class Records:
    """A chunk of records. A full one does not change any more."""

    __slots__ = ("keys", "positions", "times")

    def __init__(self) -> None:
        self.keys = bytearray()
        self.positions = array("Q")
        self.times = array("Q")

    def __len__(self) -> int:
        return len(self.times)


class Stretch(NamedTuple):
    """Records of one chunk from an offset on, for a snapshot."""

    records: Records
    first: int

    @property
    def is_full(self) -> bool:
        return len(self.records) == _CHUNK


class CommandTime:
    """The latest time of a command: it never goes back."""

    __slots__ = ("now_ms",)

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms

    def pass_to(self, at_ms: int) -> None:
        self.now_ms = max(self.now_ms, at_ms)


class Deduplication:
    def __init__(self, window_ms: int, time: CommandTime, most: int = REMEMBERED_MAX) -> None:
        """All destinations share `time`: a command for one lets the others forget, too."""
        self.window_ms = window_ms
        self.dropped_ms = 0  # when the newest event was placed that was forgotten before its time
        self._time = time
        self._most = most
        self._chunks: list[Records] = []
        self._base = 0  # number of the first record of the first chunk
        self._oldest = 0  # number of the oldest record that counts
        self._next = 0
        self._tables: list[array[int] | None] = [None] * _SHARDS  # None: to be made from the records when it is needed
        self._used = [0] * _SHARDS

    def __len__(self) -> int:
        """How many events it remembers."""
        self._forget_old()
        return self._next - self._oldest

    def configure(self, window_ms: int) -> None:
        self._forget_old()  # a longer window brings nothing back
        self.window_ms = window_ms

    @property
    def shortened_to_ms(self) -> int | None:
        """How far back it remembers everything, if that is less than the window."""
        reach = self._time.now_ms - self.dropped_ms
        return reach if self.dropped_ms and reach < self.window_ms else None

    def take(self, keys: bytes, first: int, at_ms: int) -> Repeated:
        """Events come at a time, for positions from `first` on: remember the new ones, and say which are repetitions."""
        self._time.pass_to(at_ms)
        self._forget_old()
        runs: list[RepeatedRun] = []
        for index in range(len(keys) // KEY_BYTES):
            key = keys[index * KEY_BYTES : (index + 1) * KEY_BYTES]
            known = self._find_or_add(key, first + index)
            if known is not None:
                _extend(runs, index, known)
        self._bound()
        return tuple(runs)

    # --- the index -----------------------------------------------------------------------------------------------------

    def _find_or_add(self, key: bytes, position: int) -> int | None:
        """The position of the event that this one repeats; None when it is new, and remembered from now on."""
        shard = key[0]
        table = self._tables[shard] or self._make_table(shard)
        oldest, live, base, chunks = self._oldest, self._next - self._oldest, self._base, self._chunks
        mask = len(table) - 1
        slot = int.from_bytes(key[1:5], "little") & mask
        while number := table[slot]:
            age = (number - 1 - oldest) % _NUMBERS
            if age < live:
                place = oldest + age - base
                records, offset = chunks[place >> _CHUNK_BITS], place & _CHUNK_MASK
                if records.keys[offset * KEY_BYTES : (offset + 1) * KEY_BYTES] == key:
                    return records.positions[offset]
            slot = (slot + 1) & mask
        table[slot] = self._next % _NUMBERS + 1
        self._append(key, position, self._time.now_ms)
        self._used[shard] += 1
        if 4 * self._used[shard] > 3 * len(table):
            self._make_table(shard)
        return None

    def _make_table(self, shard: int) -> array[int]:
        """A table of the records that count; at most half of it is used then."""
        numbers = list(self._numbers_in(shard))
        size = _SHARD_SLOTS_MIN
        while size < 2 * len(numbers):
            size *= 2
        made, mask = array("I", bytes(4 * size)), size - 1
        for number in numbers:
            place = number - self._base
            at = (place & _CHUNK_MASK) * KEY_BYTES
            slot = int.from_bytes(self._chunks[place >> _CHUNK_BITS].keys[at + 1 : at + 5], "little") & mask
            while made[slot]:
                slot = (slot + 1) & mask
            made[slot] = number % _NUMBERS + 1
        self._tables[shard], self._used[shard] = made, len(numbers)
        return made

    def _numbers_in(self, shard: int) -> Iterator[int]:
        """The numbers of the records of a shard: the first byte of a key says which it is in."""
        begin = self._base
        for records in self._chunks:
            shards, at = records.keys[::KEY_BYTES], -1
            while (at := shards.find(shard, at + 1)) >= 0:
                if begin + at >= self._oldest:
                    yield begin + at
            begin += _CHUNK

    # --- the records ---------------------------------------------------------------------------------------------------

    def _append(self, key: bytes, position: int, at_ms: int) -> None:
        if not self._chunks or len(self._chunks[-1]) == _CHUNK:
            self._chunks.append(Records())
        records = self._chunks[-1]
        records.keys += key
        records.positions.append(position)
        records.times.append(at_ms)
        self._next += 1

    def _forget_old(self) -> None:
        """Forget events that were placed a window ago, or earlier."""
        until_ms = self._time.now_ms - self.window_ms
        while self._oldest < self._next:
            place = self._oldest - self._base
            records, offset = self._chunks[place >> _CHUNK_BITS], place & _CHUNK_MASK
            if records.times[offset] > until_ms:
                return
            self._forget_before(self._oldest - offset + bisect_right(records.times, until_ms, offset))

    def _bound(self) -> None:
        if self._next - self._oldest > self._most:
            oldest = self._next - self._most
            place = oldest - 1 - self._base
            self.dropped_ms = max(self.dropped_ms, self._chunks[place >> _CHUNK_BITS].times[place & _CHUNK_MASK])
            self._forget_before(oldest)

    def _forget_before(self, oldest: int) -> None:
        self._oldest = oldest
        gone = (oldest - self._base) >> _CHUNK_BITS
        if gone:
            del self._chunks[:gone]
            self._base += gone << _CHUNK_BITS
        if oldest == self._next:
            self._tables, self._used = [None] * _SHARDS, [0] * _SHARDS

    # --- snapshots -----------------------------------------------------------------------------------------------------

    def stretches(self) -> Iterator[Stretch]:
        """The events it remembers, oldest first."""
        self._forget_old()
        place = self._oldest - self._base
        for records in self._chunks:
            if place < len(records):
                yield Stretch(records, place)
            place = max(0, place - _CHUNK)

    def rebuild(self, keys: bytes, positions: bytes, times: bytes) -> None:
        """Add the next remembered events, from a snapshot. The index is made when it is needed."""
        placed, at, begin = array("Q", positions), array("Q", times), 0
        while begin < len(at):
            if not self._chunks or len(self._chunks[-1]) == _CHUNK:
                self._chunks.append(Records())
            records = self._chunks[-1]
            end = min(len(at), begin + _CHUNK - len(records))
            records.keys += keys[begin * KEY_BYTES : end * KEY_BYTES]
            records.positions.extend(placed[begin:end])
            records.times.extend(at[begin:end])
            self._next += end - begin
            begin = end


def _extend(runs: list[RepeatedRun], index: int, position: int) -> None:
    if runs:
        first, count, repeated = runs[-1]
        if first + count == index and repeated + count == position:
            runs[-1] = (first, count + 1, repeated)
            return
    runs.append((index, 1, position))


def bits_of(repeated: Iterable[RepeatedRun]) -> int:
    """A bit for each event that is a repetition."""
    return sum(((1 << count) - 1) << first for first, count, _ in repeated)
