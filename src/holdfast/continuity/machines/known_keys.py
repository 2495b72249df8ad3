"""Known keys: which requests are known already, so that a retry through any engine is answered and never called again.

                      the key is not known       New        it is known from now on; the request is called
    judge(key, …) ──▶ known, the same digest     Known      place of the first, and the digest of the answer that was given
                      known, another digest      Clash      another request or other credentials: 422

    buckets by time    │ 14:00 │ 15:30 │ … │ 12:30 │ 14:00 │      one is forgotten as a whole, when all in it are old enough
                       └───────────────── kept ───────────┘      so a key is known for `kept` at least, a sixteenth more at most

All listeners must forget a key at the same event, or a retry would be called at one server and answered from the store at another
(continuity rule 1). So the clock is made of the times of events alone, in the order of the topic. It is the latest time so far:
an event with an earlier time does not turn it back. No other call moves it, and nothing else makes a key forgotten. Hand in the
time at which Holdfast accepted the event. With times of engines, one wrong clock would make all keys forgotten at once.

A bucket is a few tables of fixed size. The first has room for as many keys as the bucket before, further ones double. Tables
may differ between listeners: only the bucket counts.

    filter   FILTER_BITS bits a slot       three bits are set for each key (a Bloom filter)
    slots    ┌────────────┬───────────────┬─────────────────┬───────────────┐
             │ name  10 B │ digest   8 B  │ place + 1   6 B │ given    8 B  │     a free slot is all zeros
             └────────────┴───────────────┴─────────────────┴───────────────┘
             a name belongs into the slot that its first bytes say, or the next free one; nothing is taken out

A key that is looked for and not in a table touches the filter alone, in 199 of 200 cases. So the slots may lie in a mapped file,
which the system writes out, and only the filters are in memory all the time: 2 bytes a key, and 43 bytes in the file.

Names and digests are the beginnings of longer ones. Of two hundred million keys, one is taken for another with a probability of
10 to the -16 for each request. To pass for a known request with another body needs 2 to the 64 tries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from mmap import mmap
from typing import NamedTuple

from holdfast.continuity.request import DIGEST_BYTES

# Enough that little is kept too long, few enough to look into each.
BUCKETS = 16
TABLE_KEYS_MIN = 1_024
NAME_BYTES = 10
_SHORT = 8
_PLACE_AT = NAME_BYTES + _SHORT
_GIVEN_AT = _PLACE_AT + 6
SLOT_BYTES = _GIVEN_AT + _SHORT
# With three quarters of the slots taken, a search ends after two or three.
LOAD = 0.75
FILTER_BITS = 12
_FREE = bytes(6)
_NOT_GIVEN = bytes(_SHORT)

Buffer = bytearray | mmap


class New(NamedTuple):
    """The key was not known."""


class Known(NamedTuple):
    """The key is known with this digest."""

    place: int  # of the first request with it
    given: bytes | None  # the digest of the answer that was given, shortened, once an engine has published it

    def is_given(self, digest: bytes) -> bool:
        """Whether an answer with this digest may be given: it was before, or none was."""
        return self.given is None or self.given == shortened(digest)


class Clash(NamedTuple):
    """The key is known with another digest."""

    place: int = 0  # of the first request with it


Judgement = New | Known | Clash
_NEW = New()


class KnownKeys:
    def __init__(self, kept_us: int, allocate: Callable[[int], Buffer] = bytearray, table_keys: int = TABLE_KEYS_MIN) -> None:
        """`allocate` gives so many bytes of zeros; they may be in a file. `table_keys`: room in the smallest table."""
        if kept_us <= 0:
            raise ValueError(f"keys are kept for a time above 0, not {kept_us}")
        self.kept_us = kept_us
        self.clock_us = 0  # the latest time of an event so far
        self._width_us = max(1, kept_us // BUCKETS)
        self._allocate = allocate
        self._table_keys = table_keys
        self._buckets: deque[tuple[int, list[KeyTable]]] = deque()  # oldest first: number, and tables, the largest last

    def __len__(self) -> int:
        return sum(table.count for _, tables in self._buckets for table in tables)

    @property
    def size(self) -> int:
        """Bytes of all tables."""
        return sum(table.size for _, tables in self._buckets for table in tables)

    @property
    def forgotten_us(self) -> int:
        """Keys that were entered when the clock stood before this are forgotten, each of them."""
        return self.clock_us - self.kept_us - self._width_us

    def judge(self, key: str, digest: bytes, time_us: int, place: int) -> Judgement:
        """Judge a request, in the order of the topic; a new key is known from now on."""
        _check(digest)
        self.advance(time_us)
        name = _name(key)
        found = self._find(name)
        if found is None:
            self._open_table().enter(name, digest, place)
            return _NEW
        table, slot = found
        if not table.has_digest(slot, digest):
            return Clash(table.place(slot))
        return Known(table.place(slot), table.given(slot))

    def given(self, key: str, digest: bytes) -> None:
        """Note the answer that was given for a key, in the order of the topic: the first counts. An unknown key has none."""
        _check(digest)
        found = self._find(_name(key))
        if found is not None:
            table, slot = found
            if table.given(slot) is None:
                table.give(slot, digest)

    def advance(self, time_us: int) -> None:
        """Move the clock by an event without a key, and forget what is old. An earlier time changes nothing."""
        if time_us <= self.clock_us:
            return
        self.clock_us = time_us
        buckets, width = self._buckets, self._width_us
        while buckets and (buckets[0][0] + 1) * width + self.kept_us <= time_us:
            buckets.popleft()

    def _find(self, name: bytes) -> tuple[KeyTable, int] | None:
        for _, tables in reversed(self._buckets):
            for table in reversed(tables):
                slot = table.find(name)
                if slot >= 0:
                    return table, slot
        return None

    def _open_table(self) -> KeyTable:
        """The table that takes the next key."""
        number = self.clock_us // self._width_us
        if not self._buckets or self._buckets[-1][0] != number:
            before = sum(table.count for table in self._buckets[-1][1]) if self._buckets else 0
            self._buckets.append((number, [self._table(before)]))
        tables = self._buckets[-1][1]
        if tables[-1].is_full:
            tables.append(self._table(2 * tables[-1].room))
        return tables[-1]

    def _table(self, keys: int) -> KeyTable:
        return KeyTable(max(self._table_keys, keys), self._allocate)


def shortened(digest: bytes) -> bytes:
    """As much of a digest as is kept; never zeros, which stand for none."""
    return digest[:_SHORT] if digest[:_SHORT] != _NOT_GIVEN else b"\x01" * _SHORT


class KeyTable:
    def __init__(self, room: int, allocate: Callable[[int], Buffer]) -> None:
        """A table for so many keys."""
        self.room = room
        self.count = 0
        self._slots_count = int(room / LOAD) + 1
        self._bits = self._slots_count * FILTER_BITS
        self._slots = allocate(self._slots_count * SLOT_BYTES)
        self._filter = bytearray(self._bits // 8 + 1)

    @property
    def is_full(self) -> bool:
        return self.count >= self.room

    @property
    def size(self) -> int:
        return len(self._slots) + len(self._filter)

    def find(self, name: bytes) -> int:
        """Where a key is; -1 if it is not here."""
        filter, bits, number = self._filter, self._bits, int.from_bytes(name, "big")
        for shift in (0, 20, 40):
            bit = (number >> shift) % bits
            if not filter[bit >> 3] & 1 << (bit & 7):
                return -1
        at = self._slot_of(number)
        slots, end = self._slots, len(self._slots)
        while slots[at : at + NAME_BYTES] != name or slots[at + _PLACE_AT : at + _GIVEN_AT] == _FREE:
            if slots[at + _PLACE_AT : at + _GIVEN_AT] == _FREE:
                return -1
            at = (at + SLOT_BYTES) % end
        return at

    def enter(self, name: bytes, digest: bytes, place: int) -> None:
        """Enter a key that is not here. The table must not be full."""
        number = int.from_bytes(name, "big")
        for shift in (0, 20, 40):
            bit = (number >> shift) % self._bits
            self._filter[bit >> 3] |= 1 << (bit & 7)
        at, slots = self._slot_of(number), self._slots
        while slots[at + _PLACE_AT : at + _GIVEN_AT] != _FREE:
            at = (at + SLOT_BYTES) % len(slots)
        slots[at : at + SLOT_BYTES] = name + digest[:_SHORT] + (place + 1).to_bytes(6, "big") + _NOT_GIVEN
        self.count += 1

    def _slot_of(self, number: int) -> int:
        return (number >> 16) % self._slots_count * SLOT_BYTES

    def has_digest(self, slot: int, digest: bytes) -> bool:
        return self._slots[slot + NAME_BYTES : slot + _PLACE_AT] == digest[:_SHORT]

    def place(self, slot: int) -> int:
        """Where the first request with the key is."""
        return int.from_bytes(self._slots[slot + _PLACE_AT : slot + _GIVEN_AT], "big") - 1

    def given(self, slot: int) -> bytes | None:
        """The digest of the answer that was given, shortened."""
        found = bytes(self._slots[slot + _GIVEN_AT : slot + SLOT_BYTES])
        return found if found != _NOT_GIVEN else None

    def give(self, slot: int, digest: bytes) -> None:
        self._slots[slot + _GIVEN_AT : slot + SLOT_BYTES] = shortened(digest)


def _check(digest: bytes) -> None:
    if len(digest) != DIGEST_BYTES:
        raise ValueError(f"a digest has {DIGEST_BYTES} bytes, not {len(digest)}")


def _name(key: str) -> bytes:
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=NAME_BYTES).digest()
