"""A journal as it is found in its folder: read the headers and the newest segment, and have them judged (`recovery`).

Only the newest segment is read through; the others are checked when somebody reads them.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import NamedTuple

from holdfast.channel.journal.files.disk import Disk, DiskFile
from holdfast.channel.journal.files.layout import (
    HEADER_BYTES,
    MARK_BYTES,
    MARK_NAME,
    NO_SNAPSHOT,
    DurableMark,
    Header,
    decode_mark,
    segment_name,
    segment_number,
)
from holdfast.channel.journal.files.record import Passage, length_at, padded, scan, strays
from holdfast.channel.journal.files.segment import Chain, Marks, Segment
from holdfast.channel.journal.reading.recovery import (
    FoundSegment,
    Judged,
    JudgedTail,
    damaged,
    is_without_journal,
    judge_headers,
    judge_tail,
)
from holdfast.errors import HoldfastError, JournalDamaged

_READ_BYTES = 1 << 20


class FoundJournal(NamedTuple):
    """A journal as it stands: nothing was changed to learn it."""

    judged: Judged
    kept: Chain
    chain: Chain
    tail: JudgedTail
    next_entry: int
    marks: Marks
    mark: DurableMark | None

    @property
    def headers(self) -> tuple[Header, ...]:
        return (*self.judged.kept, *self.judged.chain, *self.judged.spares)

    @property
    def journal_id(self) -> bytes | None:
        return self.headers[0].journal_id if self.headers else None

    @property
    def segment_bytes(self) -> int | None:
        return self.headers[0].segment_bytes if self.headers else None

    @property
    def spares(self) -> tuple[int, ...]:
        """Numbers of free segments, those never used first."""
        in_use = {segment.number for segment in (*self.kept, *self.chain)}
        headers = sorted(self.headers, key=lambda header: (header.generation, header.number))
        return tuple(header.number for header in headers if header.number not in in_use)


def look(disk: Disk, folder: Path) -> FoundJournal:
    """Return the journal in the folder. JournalDamaged, UnknownVersion, NotAJournal; OSError when it cannot be read."""
    names = disk.names(folder)
    mark = read_mark(disk, folder)
    if is_without_journal(names):
        judged: Judged | HoldfastError = Judged((), (), (), 0)
    else:
        judged = judge_headers(read_headers(disk, folder, names))
    if isinstance(judged, HoldfastError):
        raise judged
    return _look_at_tail(disk, folder, judged, mark)


def read_mark(disk: Disk, folder: Path) -> DurableMark | None:
    try:
        file = disk.open(folder / MARK_NAME, is_writable=False)
    except FileNotFoundError:
        return None
    try:
        return decode_mark(file.read(MARK_BYTES, 0))
    finally:
        file.close()


def read_headers(disk: Disk, folder: Path, names: list[str]) -> list[FoundSegment]:
    found = []
    for name in names:
        if segment_number(name) is None:
            continue
        file = disk.open(folder / name, is_writable=False)
        try:
            found.append(FoundSegment(name, file.size, file.read(HEADER_BYTES, 0)))
        finally:
            file.close()
    return found


def _look_at_tail(disk: Disk, folder: Path, judged: Judged, mark: DurableMark | None) -> FoundJournal:
    if not judged.chain:
        if mark and mark.generation:
            raise damaged(
                segment_name(1),
                0,
                f"no segment was ever used, though entries up to {mark.entry} were durable: the used ones are missing",
            )
        return FoundJournal(judged, (), (), JudgedTail(HEADER_BYTES, HEADER_BYTES), 1, Marks(0, NO_SNAPSHOT), mark)
    segments = as_chain(judged)
    tail, header = segments[-1], judged.chain[-1]
    file = disk.open(folder / tail.name, is_writable=False)
    try:
        marks = scan_tail(file, tail, Marks(header.oldest_generation, header.snapshot))
        rest = file.read(header.segment_bytes - tail.end, tail.end)
    finally:
        file.close()
    behind = [*strays(rest, tail.end, life=tail.life, seed=tail.seed)]
    is_begun = length_at(rest, 0, tail.life) is not None
    verdict = judge_tail(header, tail.end, tail.index.next_entry, behind, mark, is_begun=is_begun)
    if isinstance(verdict, JournalDamaged):
        raise verdict
    chain, kept = marks.held(segments)
    return FoundJournal(judged, kept, chain, verdict, tail.index.next_entry, marks, mark)


def as_chain(judged: Judged) -> Chain:
    """Return segments with their ends: each ends where the next one says; the last of the kept snapshot, where that ends."""
    headers = (*judged.kept, *judged.chain)
    ends = [
        newer.previous_end if newer.previous_generation == older.generation else headers[-1].snapshot.end
        for older, newer in itertools.pairwise(headers)
    ]
    return tuple(Segment(header, end) for header, end in zip(headers, (*ends, HEADER_BYTES), strict=True))


def scan_tail(file: DiskFile, tail: Segment, marks: Marks) -> Marks:
    """Read the newest segment to the last right record. Set its end and index; return the marks after its notes."""
    while tail.end < tail.header.segment_bytes:
        passage = _passage_at(file, tail)
        if passage.end == tail.end:
            break
        tail.index.cover(passage)
        tail.end = passage.end
        for note in passage.notes:
            marks = marks.after(note, tail.generation)
    return marks


def _passage_at(file: DiskFile, tail: Segment) -> Passage:
    left = tail.header.segment_bytes - tail.end
    data = file.read(min(_READ_BYTES, left), tail.end)
    wanted = padded(length_at(data, 0, tail.life) or 0)
    if len(data) < wanted <= left:
        data = file.read(wanted, tail.end)
    return scan(data, tail.end, life=tail.life, seed=tail.seed, entry=tail.index.next_entry)
