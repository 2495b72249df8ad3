"""The layout of the header of a segment file, and of the durable mark.

    segment-000004.hfj, always of the same size
    ┌───────────── header, 512 bytes: one sector, written whole or not at all ─────────────┐
    │ magic 8 │ version u32 │ lead checksum u32 │ journal id 16                             │
    │ segment number u32 │ life u32 │ segment bytes u64 │ generation u64                     │
    │ previous: generation u64, segment number u32, end u32 │ first entry u64               │
    │ oldest generation u64 │ snapshot: at u64, generation u64, byte u32, parts u32,         │
    │ last generation u64, end u32                                                          │
    │ zeros │ checksum u32 of all before it                                                 │
    ├──────────────────────────────────────────────────────────────────────────────────────┤
    │ record │ record │ record │ … │ remains of a former life, or zeros                     │
    └──────────────────────────────────────────────────────────────────────────────────────┘

A segment lives many times. Each life has a **generation**, higher than all before it, and a **life** number drawn at random.
Together with the id of the journal they seed the checksums of its records. So a record of a former life never passes for one of
this life, even when a crash lost the header of a life and kept its records. A segment with generation 0 was prepared and never
used.

The header is written together with the first records of a life. It says where the segment before it ends (everything behind that
end is void) and how far the journal was released. So opening needs only the newest header and the records after it.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

import crc32c

MAGIC = b"HFJRNL\r\n"
MARK_MAGIC = b"HFMARK\r\n"
VERSION = 1
HEADER_BYTES = 512
JOURNAL_ID_BYTES = 16

LOCK_NAME = "owner.lock"
MARK_NAME = "durable.mark"
HOLD_NAME = "backup.hold"
PREPARING_SUFFIX = ".preparing"
_NAME = re.compile(r"segment-(\d{6,9})\.hfj\Z")

_LEAD = struct.Struct("<8sII")
_FIELDS = struct.Struct("<16sIIQQQIIQQQQIIQI")
_CHECKSUM = struct.Struct("<I")
_CHECKSUM_AT = HEADER_BYTES - _CHECKSUM.size
_SEED = struct.Struct("<16sQI")
_MARK = struct.Struct("<8s16sQQQ")
MARK_BYTES = _MARK.size + _CHECKSUM.size


class SnapshotPlace(NamedTuple):
    """Where the newest whole snapshot begins and ends. `generation` 0: there is none.

    Its segments, from `generation` to `last_generation`, are kept even when the segments between them and the oldest entries are
    released.
    """

    at: int
    generation: int
    byte: int
    parts: int
    last_generation: int
    end: int

    def keeps(self, generation: int) -> bool:
        return self.generation <= generation <= self.last_generation


NO_SNAPSHOT = SnapshotPlace(0, 0, 0, 0, 0, 0)


class Header(NamedTuple):
    journal_id: bytes
    number: int
    life: int
    segment_bytes: int
    generation: int
    previous_generation: int
    previous_number: int
    previous_end: int
    first_entry: int
    oldest_generation: int
    snapshot: SnapshotPlace

    @property
    def seed(self) -> int:
        return crc32c.crc32c(_SEED.pack(self.journal_id, self.generation, self.life))


class NotAHeader(Exception):
    """These 512 bytes are not a segment header of this version. `byte` is the first wrong one, as far as can be told."""

    def __init__(self, what: str, byte: int) -> None:
        super().__init__(what)
        self.byte = byte


class NewerVersion(Exception):
    def __init__(self, version: int) -> None:
        super().__init__(f"format version {version}")
        self.version = version


def segment_name(number: int) -> str:
    return f"segment-{number:06d}.hfj"


def segment_number(name: str) -> int | None:
    found = _NAME.match(name)
    return int(found[1]) if found else None


def is_ours(name: str) -> bool:
    """Tell whether a journal leaves this name in its folder."""
    return name in (LOCK_NAME, MARK_NAME, HOLD_NAME) or name.endswith(PREPARING_SUFFIX) or segment_number(name) is not None


def spare_header(journal_id: bytes, number: int, segment_bytes: int) -> Header:
    return Header(journal_id, number, 0, segment_bytes, 0, 0, 0, 0, 0, 0, NO_SNAPSHOT)


def encode_header(header: Header) -> bytes:
    lead = _LEAD.pack(MAGIC, VERSION, lead_checksum(VERSION))
    fields = _FIELDS.pack(*header[:-1], *header.snapshot)
    body = (lead + fields).ljust(_CHECKSUM_AT, b"\0")
    return body + _CHECKSUM.pack(crc32c.crc32c(body))


def decode_header(data: bytes) -> Header:
    """Return the header. NotAHeader or NewerVersion when this release cannot read it."""
    if len(data) < HEADER_BYTES:
        raise NotAHeader("the file ends inside its header", len(data))
    magic, version, checksum = _LEAD.unpack_from(data)
    if magic != MAGIC:
        raise NotAHeader("the file does not begin like a segment", 0)
    if checksum != lead_checksum(version):
        raise NotAHeader("the version in the header does not carry its checksum", 8)
    if version != VERSION:
        raise NewerVersion(version)
    (found,) = _CHECKSUM.unpack_from(data, _CHECKSUM_AT)
    if found != crc32c.crc32c(data[:_CHECKSUM_AT]):
        raise NotAHeader("the header does not carry its checksum", _LEAD.size)
    fields = _FIELDS.unpack_from(data, _LEAD.size)
    return Header._make((*fields[:-6], SnapshotPlace(*fields[-6:])))


def lead_checksum(version: int) -> int:
    return crc32c.crc32c(MAGIC + version.to_bytes(4, "little"))


class DurableMark(NamedTuple):
    """The newest durable entry, as the owner says: written after each sync and never before it.

    The mark itself is synced only when the journal is closed, so it may be old; it is never too new. Other processes read up to
    it. Opening refuses a journal that holds less than its mark says, because the missing entries had been durable.
    """

    journal_id: bytes
    generation: int
    end: int
    entry: int


def encode_mark(mark: DurableMark) -> bytes:
    body = _MARK.pack(MARK_MAGIC, *mark)
    return body + _CHECKSUM.pack(crc32c.crc32c(body))


def decode_mark(data: bytes) -> DurableMark | None:
    """Return the mark; None when there is no whole one: then nothing is said to be durable."""
    if len(data) < MARK_BYTES or _CHECKSUM.unpack_from(data, _MARK.size)[0] != crc32c.crc32c(data[: _MARK.size]):
        return None
    magic, *fields = _MARK.unpack_from(data)
    return DurableMark(*fields) if magic == MARK_MAGIC else None
