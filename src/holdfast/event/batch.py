"""A batch: events of one producer to one destination, kept together on the wire and on disk.

    ┌──────────────── fixed head, 64 bytes ─────────────────┐
    │ version u8 │ flags u8 │ count u16 │ checksum u32      │   checksum: CRC-32C of everything but itself
    │ priority u8 │ hops u8 │ source length u16 │ origin u32 │ not before, ms u64      (offset 8..; see `hops`)
    │ earliest expiry, ms u64 │ latest expiry, ms u64       │
    │ first id, 16 bytes big-endian                         │
    │ heads length u32 │ bodies length u32                  │
    ├───────────────────────────────────────────────────────┤
    │ source, UTF-8                                         │   of all events whose heads name no other
    │ head lengths, u32 each │ body lengths, u32 each       │
    │ heads │ bodies                                        │
    └───────────────────────────────────────────────────────┘   all numbers little-endian but the id

All events of a batch have the same priority and delay, and its head says whether any event has a group or an expiry: plain
events never pay for them. Nothing between producer and recipient reads past the fixed head unless a selector or a group asks.

The id of event i is the first id + i, unless its head names one: an id costs no bytes and no time.
"""

from __future__ import annotations

import operator
import struct
from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import TypeVar

import crc32c
import msgspec

from holdfast.errors import BadEvent, BatchDamaged, UnknownVersion
from holdfast.event.event import PRIORITY_MAX

Made = TypeVar("Made")

VERSION = 1
COUNT_MAX = 65_535  # a position keeps 16 bits for the index in its batch

HAS_GROUPS = 1
HAS_EXPIRY = 2

# The latest time that a clock can show; later ones do not fit where they are kept.
TIME_MS_MAX = (1 << 52) - 1
_IDS_END = 1 << 128
# How deep a head may be nested (ours are two deep): far below a thousand calls, where reading fails.
NESTING_MAX = 600
# All bytes but those that may begin an array or a map in MessagePack.
_BEGIN_NOTHING = bytes(each for each in range(256) if not (0x80 <= each <= 0x9F or 0xDC <= each <= 0xDF))
# From this first id on, the ids of a batch may run past the last one.
_LATE_ID = (_IDS_END - COUNT_MAX).to_bytes(16, "big")

# version flags count checksum | priority hops source_length origin | not_before earliest latest | first_id | heads bodies
_FIXED = struct.Struct("<BBHIBBHIQQQ16sII")
_LENGTHS_OF_ONE = struct.Struct("<II")
FIXED_LENGTH = _FIXED.size
_CHECKSUM_AT = 4
_COVERED_FROM = 8

assert FIXED_LENGTH == 64


def encode(
    heads: Sequence[bytes],
    bodies: Sequence[bytes],
    *,
    source: str,
    first_id: int,
    priority: int = 4,
    not_before_ms: int = 0,
    earliest_expiry_ms: int = 0,
    latest_expiry_ms: int = 0,
    has_groups: bool = False,
    hops: int = 0,
    origin: int = 0,
) -> bytes:
    """The bytes of a batch. Heads were made by `event.encode_head`."""
    count = len(heads)
    if not 1 <= count <= COUNT_MAX or len(bodies) != count:
        raise ValueError(f"a batch has 1..{COUNT_MAX} events, each with head and body; got {count} and {len(bodies)}")
    flags = HAS_GROUPS * has_groups | HAS_EXPIRY * bool(latest_expiry_ms)
    own_source = source.encode()
    all_heads, all_bodies = (heads[0], bodies[0]) if count == 1 else (b"".join(heads), b"".join(bodies))
    lengths = _LENGTHS_OF_ONE.pack(len(all_heads), len(all_bodies)) if count == 1 else _lengths(heads, bodies)
    fixed = _FIXED.pack(
        VERSION, flags, count, 0, priority, hops, len(own_source), origin, not_before_ms, earliest_expiry_ms, latest_expiry_ms,
        first_id.to_bytes(16, "big"), len(all_heads), len(all_bodies),
    )  # fmt: skip
    return sealed(fixed, b"".join((own_source, lengths, all_heads, all_bodies)))


def _lengths(heads: Sequence[bytes], bodies: Sequence[bytes]) -> bytes:
    lengths = array("I", map(len, heads))
    lengths.extend(map(len, bodies))
    return lengths.tobytes()


def sealed(fixed: bytes, rest: bytes | memoryview) -> bytes:
    """A batch from its fixed head and all behind it, with its checksum."""
    checksum = crc32c.crc32c(rest, crc32c.crc32c(fixed[_COVERED_FROM:], crc32c.crc32c(fixed[:_CHECKSUM_AT])))
    return b"".join((fixed[:_CHECKSUM_AT], checksum.to_bytes(4, "little"), fixed[_COVERED_FROM:], rest))


def _checksum_of(data: memoryview) -> int:
    return crc32c.crc32c(data[_COVERED_FROM:], crc32c.crc32c(data[:_CHECKSUM_AT]))


def count_of(data: bytes | memoryview) -> int:
    """How many events a batch has, from its fixed head alone."""
    return int.from_bytes(data[2:4], "little")


def ids_run_over(data: bytes | memoryview) -> bool:
    """Whether a batch has more events than there are ids after its first one: `verify` refuses it, older releases did not."""
    return data[40] == 255 and int.from_bytes(data[40:56], "big") + count_of(data) > _IDS_END


def earliest_expiry_of(data: bytes | memoryview) -> int:
    """When the first of a batch's events expires, ms since 1970, from its fixed head alone; 0: none does."""
    return int.from_bytes(data[24:32], "little") if data[1] & HAS_EXPIRY else 0


def verify(data: bytes | memoryview) -> None:
    """Refuse a batch that could not be handed out later, without reading a single event.

    BatchDamaged if its lengths or its checksum are wrong; BadEvent for ids, a priority, times or a source that no producer can
    mean.
    """
    view = memoryview(data)
    if len(view) < FIXED_LENGTH:
        raise BatchDamaged(f"a batch of {len(view)} bytes is shorter than its head; it was cut on the way")
    (
        version, flags, count, said, priority, _, source_length, _, not_before, earliest, latest, first_id, heads, bodies,
    ) = _FIXED.unpack_from(view)  # fmt: skip
    if version != VERSION:
        raise UnknownVersion(
            f"batch format {version} is not known to this release, which reads {VERSION}; upgrade it", version=version
        )
    if count == 0 or len(view) != FIXED_LENGTH + source_length + 8 * count + heads + bodies:
        raise BatchDamaged(f"a batch of {count} events does not add up to its {len(view)} bytes; it was cut or mixed up")
    found = _checksum_of(view)
    if said != found:
        raise BatchDamaged(f"checksum {found:08x} of a batch is not the {said:08x} it was sealed with", said=said, found=found)
    lengths_at = FIXED_LENGTH + source_length
    if count == 1:
        is_sum, longest = _LENGTHS_OF_ONE.unpack_from(view, lengths_at) == (heads, bodies), heads
    else:
        lengths = array("I")
        lengths.frombytes(view[lengths_at : lengths_at + 8 * count])
        is_sum, longest = sum(lengths[:count]) == heads and sum(lengths[count:]) == bodies, max(lengths[:count])
    if not is_sum:
        raise BatchDamaged("the lengths inside a batch do not add up; its client is broken")
    if first_id >= _LATE_ID:
        _check_ids(first_id, count)
    if flags or not_before or priority > PRIORITY_MAX or earliest or latest:
        _check_traits(flags, priority, not_before, earliest, latest)
    _check_source(view[FIXED_LENGTH:lengths_at])
    if longest > NESTING_MAX:
        _check_nesting(Batch(view))


def _check_nesting(batch: Batch) -> None:
    """BadEvent for a head that is nested too deep: some machines could read it and others not, and their selectors would
    differ."""
    for index in range(batch.count):
        head = bytes(batch.head(index))
        if len(head) > NESTING_MAX < len(head.translate(None, _BEGIN_NOTHING)) and not _is_flat(head):
            raise BadEvent(f"the head of event {index} of a batch is nested more than {NESTING_MAX} deep; its client is broken")


def _is_flat(head: bytes) -> bool:
    try:
        level = [msgspec.msgpack.decode(head)]
    except (ValueError, TypeError, RecursionError):  # as msgspec's own errors are
        return False
    for _ in range(NESTING_MAX):
        parts = [part for part in level if isinstance(part, dict | list)]
        level = [each for part in parts for each in (part.values() if isinstance(part, dict) else part)]
    return not any(isinstance(part, dict | list) for part in level)


def _check_ids(first_id: bytes, count: int) -> None:
    if int.from_bytes(first_id, "big") + count > _IDS_END:
        raise BadEvent(f"the ids of a batch of {count} events run past 128 bits from {first_id.hex()} on; its client is broken")


def _check_traits(flags: int, priority: int, not_before_ms: int, earliest_ms: int, latest_ms: int) -> None:
    if priority > PRIORITY_MAX:
        raise BadEvent(f"priority {priority} is outside 0..{PRIORITY_MAX}; its client is broken", priority=priority)
    if max(not_before_ms, earliest_ms, latest_ms) > TIME_MS_MAX:
        raise BadEvent(f"a batch is delayed or expires past {TIME_MS_MAX} ms since 1970, which no clock shows; give less")
    if earliest_ms > latest_ms or bool(earliest_ms) != bool(latest_ms) or bool(flags & HAS_EXPIRY) != bool(latest_ms):
        raise BadEvent(
            f"a batch says its events expire from {earliest_ms} to {latest_ms} ms since 1970, which is no such time; "
            "its client is broken"
        )


def _check_source(source: memoryview) -> None:
    try:
        str(source, "utf-8")
    except UnicodeDecodeError as problem:
        raise BadEvent(f"the source of a batch is not UTF-8 ({problem.reason} at {problem.start}); send valid text") from problem


def slice_of(data: bytes | memoryview, first: int, count: int) -> bytes | memoryview:
    """As `Batch(data).slice(first, count)`, at no cost if the slice is the whole batch."""
    if first == 0 and count == count_of(data):
        return data
    return Batch(data).slice(first, count)


def without_bodies(data: bytes | memoryview) -> bytes:
    """The bytes of the same batch with heads only: selectors read them, and they take little memory."""
    view = memoryview(data)
    if len(view) < FIXED_LENGTH:
        return bytes(view)
    count, heads_length = count_of(view), int.from_bytes(view[56:60], "little")
    lengths_at = FIXED_LENGTH + int.from_bytes(view[10:12], "little")
    heads_at = lengths_at + 8 * count
    fixed = bytes(view[:60]) + bytes(4)
    rest = b"".join((view[FIXED_LENGTH : lengths_at + 4 * count], bytes(4 * count), view[heads_at : heads_at + heads_length]))
    return sealed(fixed, rest)


class Batch:
    """A batch read where it lies: nothing is copied or decoded until it is asked for."""

    __slots__ = (
        "_bodies", "_bodies_at", "_data", "_heads", "_heads_at", "count", "earliest_expiry_ms", "first_id",
        "flags", "hops", "latest_expiry_ms", "not_before_ms", "origin", "priority", "source",
    )  # fmt: skip

    def __init__(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        if len(view) < FIXED_LENGTH:
            raise BatchDamaged(f"a batch of {len(view)} bytes is shorter than its head; it was cut on the way")
        (
            version, self.flags, self.count, _, self.priority, self.hops, source_length, self.origin, self.not_before_ms,
            self.earliest_expiry_ms, self.latest_expiry_ms, first_id, heads_length, bodies_length,
        ) = _FIXED.unpack_from(view)  # fmt: skip
        if version != VERSION:
            raise UnknownVersion(
                f"batch format {version} is not known to this release, which reads {VERSION}; upgrade it",
                version=version,
            )
        lengths_at = FIXED_LENGTH + source_length
        self._heads_at = lengths_at + 8 * self.count
        self._bodies_at = self._heads_at + heads_length
        if len(view) != self._bodies_at + bodies_length or self.count == 0:
            raise BatchDamaged(
                f"a batch says {self._bodies_at + bodies_length} bytes and has {len(view)}; it was cut or mixed up"
            )
        self._data = view
        self.first_id = int.from_bytes(first_id, "big")
        self.source = str(view[FIXED_LENGTH:lengths_at], "utf-8", "replace")  # an older release accepted other bytes, too
        self._read_lengths()

    def _read_lengths(self) -> None:
        lengths = array("I")
        lengths.frombytes(self._data[self._heads_at - 8 * self.count : self._heads_at])
        self._heads = list(accumulate(lengths[: self.count], initial=self._heads_at))
        self._bodies = list(accumulate(lengths[self.count :], initial=self._bodies_at))
        if self._heads[-1] != self._bodies_at or self._bodies[-1] != len(self._data):
            raise BatchDamaged("the lengths inside a batch do not add up; it was damaged on the way")

    def check(self) -> None:
        """BatchDamaged unless the bytes are those the producer sealed."""
        said = int.from_bytes(self._data[_CHECKSUM_AT:_COVERED_FROM], "little")
        found = _checksum_of(self._data)
        if said != found:
            raise BatchDamaged(
                f"checksum {found:08x} of a batch is not the {said:08x} it was sealed with", said=said, found=found
            )

    @property
    def data(self) -> memoryview:
        return self._data

    @property
    def trail(self) -> int:
        """Its hops and its origin in one number, as selectors read them; 0 if nobody passed it on."""
        trail: int = self.origin << 8 | self.hops
        return trail

    @property
    def has_groups(self) -> bool:
        return bool(self.flags & HAS_GROUPS)

    @property
    def has_expiry(self) -> bool:
        return bool(self.flags & HAS_EXPIRY)

    @property
    def heads(self) -> memoryview:
        """All heads, one behind the other."""
        return self._data[self._heads_at : self._bodies_at]

    @property
    def bodies(self) -> memoryview:
        """All bodies, one behind the other."""
        return self._data[self._bodies_at :]

    @property
    def head_lengths(self) -> memoryview:
        """How long each head is, u32 each."""
        lengths_at = self._heads_at - 8 * self.count
        return self._data[lengths_at : lengths_at + 4 * self.count]

    @property
    def body_lengths(self) -> memoryview:
        """How long each body is, u32 each."""
        return self._data[self._heads_at - 4 * self.count : self._heads_at]

    def head(self, index: int) -> memoryview:
        return self._data[self._heads[index] : self._heads[index + 1]]

    def body(self, index: int) -> memoryview:
        return self._data[self._bodies[index] : self._bodies[index + 1]]

    def bodies_as(self, made: Callable[[bytes], Made]) -> list[Made]:
        """Convert each body; nothing at all if one of them is empty, which may stand for a large event."""
        bounds = self._bodies
        if any(map(operator.eq, bounds, bounds[1:])):
            return []
        data = bytes(self._data)  # slicing bytes is twice as fast as slicing a view
        return [made(data[start:end]) for start, end in pairwise(bounds)]

    def slice(self, first: int, count: int) -> bytes | memoryview:
        """The bytes of a batch that holds only events `first` to `first + count - 1` of this one.

        Ids count on from 0 behind the last one: an older release accepted batches whose ids run over (see `ids_run_over`).
        """
        if first == 0 and count == self.count:
            return self._data
        if first < 0 or count < 1 or first + count > self.count:
            raise IndexError(f"events {first}..{first + count - 1} of a batch of {self.count}")
        end = first + count
        lengths_at = self._heads_at - 8 * self.count
        fixed = bytearray(self._data[:FIXED_LENGTH])
        fixed[2:4] = count.to_bytes(2, "little")
        fixed[40:56] = ((self.first_id + first) % _IDS_END).to_bytes(16, "big")
        fixed[56:60] = (self._heads[end] - self._heads[first]).to_bytes(4, "little")
        fixed[60:64] = (self._bodies[end] - self._bodies[first]).to_bytes(4, "little")
        rest = b"".join(
            (
                self._data[FIXED_LENGTH:lengths_at],
                self._data[lengths_at + 4 * first : lengths_at + 4 * end],
                self._data[lengths_at + 4 * (self.count + first) : lengths_at + 4 * (self.count + end)],
                self._data[self._heads[first] : self._heads[end]],
                self._data[self._bodies[first] : self._bodies[end]],
            )
        )
        return sealed(bytes(fixed), rest)


class UnreadBatch(Batch):
    """A batch whose lengths, most of the cost of reading it, are read only when one of its events is asked for."""

    __slots__ = ()

    def _read_lengths(self) -> None:
        """Not yet."""

    def __getattr__(self, name: str) -> list[int]:
        if name not in ("_heads", "_bodies"):
            raise AttributeError(name)
        super()._read_lengths()
        found: list[int] = object.__getattribute__(self, name)
        return found
