"""The inspection of a journal: `verify` reads everything and says whether it is whole, `show` lists its segments.

Both only read, and need no lock. If the journal is in use they see its present state: the group that is being written may look
torn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from holdfast.channel.journal.files.disk import Disk, PosixDisk
from holdfast.channel.journal.files.layout import VERSION, segment_name
from holdfast.channel.journal.files.segment import Chain, Segment
from holdfast.channel.journal.reading.found_journal import FoundJournal, look
from holdfast.channel.journal.reading.recovery import damaged
from holdfast.channel.journal.reading.segment_reader import READ_AHEAD_BYTES, SegmentReader
from holdfast.channel.journal.reading.snapshot import load
from holdfast.errors import DiskFailed, JournalDamaged, NotAJournal, UnknownVersion

State = Literal["whole", "torn tail", "damaged", "newer version", "not a journal"]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `verify`. `file` and `byte` name the place of a fault; `entries` were read and are right."""

    state: State
    sentence: str
    file: str = ""
    byte: int = 0
    first: int = 0
    durable: int = 0
    entries: int = 0
    snapshot_at: int | None = None

    @property
    def is_usable(self) -> bool:
        """It can be opened: a crash leaves a torn tail, and opening repairs that."""
        return self.state in ("whole", "torn tail")


class ShownSegment(msgspec.Struct, frozen=True):
    """One segment. `state`: tail, in use, snapshot (kept for that alone), or spare.

    `entries` counts commands, `bytes` the written part of the segment.
    """

    name: str
    number: int
    generation: int
    state: Literal["tail", "in use", "snapshot", "spare"]
    first_entry: int
    entries: int
    bytes: int


class Shown(msgspec.Struct, frozen=True):
    journal_id: str
    version: int
    segment_bytes: int
    first: int
    durable: int
    snapshot_at: int | None
    spare_bytes: int
    segments: list[ShownSegment]


class _Still:
    """A journal as it was found, for `SegmentReader`."""

    def __init__(self, found: FoundJournal) -> None:
        self.chain: Chain = found.chain
        self.durable = found.next_entry - 1


def verify(folder: Path | str, *, disk: Disk | None = None) -> Report:
    """Read the whole journal and check every record. Raises only DiskFailed, when the folder or a file cannot be read.

    When it finds damage it looks again: an owner may have used a segment again during the first look.
    """
    disk, folder = disk or PosixDisk(), Path(folder)
    report = _judged(disk, folder)
    return _judged(disk, folder) if report.state == "damaged" else report


def _judged(disk: Disk, folder: Path) -> Report:
    try:
        return _verified(disk, folder, _found(disk, folder))
    except JournalDamaged as problem:
        return Report(
            state="damaged", sentence=problem.sentence, file=str(problem.fields["file"]), byte=int(problem.fields["byte"])
        )
    except UnknownVersion as problem:
        return Report(state="newer version", sentence=problem.sentence)
    except NotAJournal as problem:
        return Report(state="not a journal", sentence=problem.sentence)


def show(folder: Path | str, *, disk: Disk | None = None) -> Shown:
    """Return the segments and their contents, without reading them through. Raises what opening would raise."""
    disk, folder = disk or PosixDisk(), Path(folder)
    found = _found(disk, folder)
    spares = found.spares
    assert found.journal_id is not None
    assert found.segment_bytes is not None
    segments = [*_shown(found), *(ShownSegment(segment_name(number), number, 0, "spare", 0, 0, 0) for number in spares)]
    return Shown(
        journal_id=found.journal_id.hex(),
        version=VERSION,
        segment_bytes=found.segment_bytes,
        first=_first(found),
        durable=found.next_entry - 1,
        snapshot_at=_snapshot_at(found),
        spare_bytes=len(spares) * found.segment_bytes,
        segments=sorted(segments, key=lambda segment: segment.number),
    )


def _found(disk: Disk, folder: Path) -> FoundJournal:
    """Return the journal in the folder; NotAJournal where there is none."""
    try:
        found = look(disk, folder)
    except FileNotFoundError:
        raise NotAJournal(f"there is no folder {folder}; name one that holds a journal", folder=str(folder)) from None
    except NotADirectoryError:
        raise NotAJournal(f"{folder} is not a folder; name one that holds a journal", folder=str(folder)) from None
    except OSError as problem:
        raise DiskFailed(f"{folder} cannot be read: {problem.strerror or problem}", reason=str(problem)) from problem
    if not found.headers:
        raise NotAJournal(f"the folder {folder} holds no journal; name one that does", folder=str(folder))
    return found


def _verified(disk: Disk, folder: Path, found: FoundJournal) -> Report:
    reader = SegmentReader(disk, folder, _Still(found), READ_AHEAD_BYTES)
    try:
        for segment in found.kept:
            _read_through(reader, segment)
        ends = [_read_through(reader, segment) for segment in found.chain]
        _check_numbers(found.chain, ends)
        load(found.marks.snapshot, (*found.kept, *found.chain), reader)
    finally:
        reader.close()
    entries = found.next_entry - _first(found)
    whole = f"whole: {entries} entries, every record carries its checksum"
    torn = f"{entries} entries are whole; the tail was torn by a crash, which is normal: opening the journal repairs it"
    return Report(
        state="torn tail" if found.tail.is_torn else "whole",
        sentence=torn if found.tail.is_torn else whole,
        file=found.chain[-1].name if found.tail.is_torn else "",
        byte=found.tail.end if found.tail.is_torn else 0,
        first=_first(found),
        durable=found.next_entry - 1,
        entries=entries,
        snapshot_at=_snapshot_at(found),
    )


def _read_through(reader: SegmentReader, segment: Segment) -> int:
    """Check every record; return the number that comes after the last."""
    next_entry = segment.first_entry
    for passage in reader.passages(segment):
        next_entry = passage.next_entry
    return next_entry


def _check_numbers(chain: Chain, ends: list[int]) -> None:
    for segment, newer, end in zip(chain, chain[1:], ends, strict=False):
        if newer.first_entry != end:
            raise damaged(newer.name, 72, f"it begins with entry {newer.first_entry}, and {segment.name} ends before {end}")


def _shown(found: FoundJournal) -> list[ShownSegment]:
    ends = [*(segment.first_entry for segment in found.chain[1:]), found.next_entry]
    shown = [
        ShownSegment(
            segment.name,
            segment.number,
            segment.generation,
            "in use",
            segment.first_entry,
            end - segment.first_entry,
            segment.end,
        )
        for segment, end in zip(found.chain, ends, strict=False)
    ]
    if shown:
        shown[-1] = msgspec.structs.replace(shown[-1], state="tail")
    kept = [
        ShownSegment(segment.name, segment.number, segment.generation, "snapshot", 0, 0, segment.end) for segment in found.kept
    ]
    return kept + shown


def _first(found: FoundJournal) -> int:
    return found.chain[0].first_entry if found.chain else found.next_entry


def _snapshot_at(found: FoundJournal) -> int | None:
    return found.marks.snapshot.at if found.marks.snapshot.generation else None
