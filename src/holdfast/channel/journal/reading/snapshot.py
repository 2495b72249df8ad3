"""A snapshot in the journal: parts, then an end that makes them one.

    part 0 │ part 1 │ … commands may stand between them … │ part n-1 │ end: as of which entry, where part 0 stands, how many parts

Chunks come back as they were saved; a chunk too large for one record becomes several parts. Only the end makes a snapshot: a
crash before it leaves parts that nobody looks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.channel.channel import Buffer, Purpose, Snapshot
from holdfast.channel.journal.files.layout import HEADER_BYTES, SnapshotPlace, segment_name
from holdfast.channel.journal.files.record import PART_LEAD, SNAPSHOT_END, SNAPSHOT_END_PAYLOAD, SNAPSHOT_PART
from holdfast.channel.journal.files.segment import Chain
from holdfast.channel.journal.reading.recovery import damaged
from holdfast.channel.journal.reading.segment_reader import SegmentReader
from holdfast.channel.journal.run import Draft
from holdfast.channel.journal.writer import Writer

# The second word of a part's lead. A snapshot without chunks is one part that belongs to none.
_GOES_ON, _LAST_OF_CHUNK, _NO_CHUNK = 0, 1, 2


def parts_of(chunks: Iterable[Buffer], *, part_bytes: int, group_bytes: int) -> Iterator[list[Draft]]:
    """Yield the chunks as parts, gathered into groups."""
    group: list[Draft] = []
    gathered = index = 0
    for chunk in chunks:
        for start in range(0, max(1, len(chunk)), part_bytes):
            piece = chunk[start : start + part_bytes]
            lead = PART_LEAD.pack(index, _LAST_OF_CHUNK if start + part_bytes >= len(chunk) else _GOES_ON)
            group.append(Draft(SNAPSHOT_PART, lead + piece, Purpose.UPKEEP))
            index, gathered = index + 1, gathered + len(piece)
            if gathered >= group_bytes:
                yield group
                group, gathered = [], 0
    if index == 0:
        group.append(Draft(SNAPSHOT_PART, PART_LEAD.pack(0, _NO_CHUNK), Purpose.UPKEEP))
    if group:
        yield group


def snapshot_end(at: int, writer: Writer) -> Draft:
    generation, byte = writer.snapshot_start
    return Draft(SNAPSHOT_END, SNAPSHOT_END_PAYLOAD.pack(at, generation, byte, writer.snapshot_parts), Purpose.UPKEEP)


def load(place: SnapshotPlace, chain: Chain, reader: SegmentReader) -> Snapshot | None:
    """Return the snapshot at this place. JournalDamaged when a part is missing: the journal never releases the newest one."""
    if not place.generation:
        return None
    chunks: list[bytes] = []
    pieces: list[bytes] = []
    for expected, payload in enumerate(_parts(place, chain, reader)):
        index, state = PART_LEAD.unpack_from(payload)
        if index != expected:
            raise damaged(_start_name(place, chain), place.byte, f"part {expected} of the snapshot is missing, {index} is there")
        pieces.append(payload[PART_LEAD.size :])
        if state == _LAST_OF_CHUNK:
            chunks.append(b"".join(pieces))
            pieces.clear()
    return Snapshot(place.at, chunks)


def _parts(place: SnapshotPlace, chain: Chain, reader: SegmentReader) -> Iterator[bytes]:
    left = place.parts
    for segment in chain:
        if not place.keeps(segment.generation):
            continue
        start = place.byte if segment.generation == place.generation else HEADER_BYTES
        for note in reader.notes(segment, start):
            if note.kind == SNAPSHOT_PART:
                yield note.payload
                left -= 1
            if not left:
                return
    if left:
        raise damaged(_start_name(place, chain), place.byte, f"{left} of {place.parts} parts of the snapshot are missing")


def _start_name(place: SnapshotPlace, chain: Chain) -> str:
    return next((segment.name for segment in chain if segment.generation == place.generation), segment_name(1))
