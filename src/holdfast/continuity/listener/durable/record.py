"""Records of a listener's store: one for each event of the topic, and how a file of them is read.

    ┌──────────────┬──────────────┬──────────────────────────────────────────────────────────────────────────────┐
    │ length  u32  │ crc-32c u32  │ msgpack [place, position, transaction, key, digest, time_us, outcome,        │
    │              │              │          Answer | nil, members | nil, given | nil, aliases | nil]            │
    └──────────────┴──────────────┴──────────────────────────────────────────────────────────────────────────────┘

Records stand in the order in which they were finished; by key that is not the order of places. A file ends at its last whole
record. `whole_after` tells a torn tail from damage: behind a torn tail there is nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Literal, NamedTuple

import crc32c
import msgspec

from holdfast.continuity.answer import Answer, Outcome
from holdfast.continuity.listener.durable.mark_file import CALLS

HEAD_BYTES = 8
# The smallest record has eleven fields of at least a byte each. Zeros, which a cut of power leaves, are no record.
BODY_BYTES_MIN = 12
# A place is called, and recorded, at most so many after the first that is not finished: the mark has room for so many.
DISORDER_MAX = CALLS
# msgpack's mark of an array of eleven.
_ELEVEN = b"\x9b"

# skipped: it was passed over after two deaths. passed: an event that is no request.
RecordOutcome = Outcome | Literal["skipped", "passed"]


class Record(msgspec.Struct, array_like=True, frozen=True):
    """An event of the topic, and what became of it here."""

    place: int
    position: int
    transaction: str
    key: str = ""
    digest: bytes = b""
    time_us: int = 0
    outcome: RecordOutcome = "passed"
    answer: Answer | None = None
    members: bytes | None = None  # the membership after it, encoded, if it changed that
    given: list[tuple[str, bytes]] | None = None  # keys, and the digests of the answers that were given for them
    aliases: bytes | None = None  # values of the server that it saw first in this answer, encoded (`machines.aliases`)


class _Scanned(msgspec.Struct, array_like=True, frozen=True):
    """A record whose answer is left as it is."""

    place: int
    position: int
    transaction: str
    key: str
    digest: bytes
    time_us: int
    outcome: RecordOutcome
    answer: msgspec.Raw
    members: bytes | None
    given: list[tuple[str, bytes]] | None
    aliases: bytes | None


class Found(NamedTuple):
    """A record in a file: where it begins, and the record without its answer."""

    offset: int
    record: Record
    has_answer: bool


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Record)
_scanner = msgspec.msgpack.Decoder(_Scanned)
_NIL = b"\xc0"


def encode(record: Record) -> bytes:
    body = _encoder.encode(record)
    return len(body).to_bytes(4, "big") + crc32c.crc32c(body).to_bytes(4, "big") + body


def without_answer(record: Record) -> Record:
    return msgspec.structs.replace(record, answer=None)


def body_at(data: bytes | memoryview, offset: int) -> bytes | None:
    """The bytes of the record that begins here; None if no whole record does."""
    begin = offset + HEAD_BYTES
    end = begin + int.from_bytes(data[offset : offset + 4], "big")
    if end - begin < BODY_BYTES_MIN or end > len(data):
        return None
    body = bytes(data[begin:end])
    return body if crc32c.crc32c(body) == int.from_bytes(data[offset + 4 : begin], "big") else None


def decode(body: bytes) -> Record:
    return _decoder.decode(body)


def scan(data: bytes) -> Iterator[Found]:
    """The records of a file, up to the first that is not whole."""
    offset, view = 0, memoryview(data)
    while (body := body_at(view, offset)) is not None:
        try:
            each = _scanner.decode(body)
        except msgspec.DecodeError:
            return
        fields = (each.place, each.position, each.transaction, each.key, each.digest, each.time_us, each.outcome)
        yield Found(offset, Record(*fields, None, each.members, each.given, each.aliases), bytes(each.answer) != _NIL)
        offset += HEAD_BYTES + len(body)


def in_order(found: Iterable[Record]) -> Iterator[Record]:
    """Records in the order of their places. They are written out of it by at most DISORDER_MAX, so few are held at a time."""
    held: list[tuple[int, int, Record]] = []
    for number, each in enumerate(found):
        heappush(held, (each.place, number, each))
        if len(held) > DISORDER_MAX:
            yield heappop(held)[2]
    yield from (heappop(held)[2] for _ in range(len(held)))


def end_of(data: bytes, found: Found) -> int:
    """Where the record after this one begins."""
    return found.offset + HEAD_BYTES + int.from_bytes(data[found.offset : found.offset + 4], "big")


def whole_after(data: bytes, offset: int) -> int:
    """Where a whole record begins, behind this byte; -1 if none does."""
    view = memoryview(data)
    at = data.find(_ELEVEN, offset + HEAD_BYTES + 1)
    while at >= 0:
        if body_at(view, at - HEAD_BYTES) is not None:
            return at - HEAD_BYTES
        at = data.find(_ELEVEN, at + 1)
    return -1
