"""Making a backup: `holdfast backup DIR TARGET`, of a folder that a server or a program may be using.

    take an image ─▶ hold its segments ─▶ take it again ─▶ copy what is not there yet ─▶ read it back, judge it ─▶ manifest
                          ▲                                        │ a segment was used again meanwhile
                          └────────────────────────────────────────┘

The owner of the folder goes on: it is asked to leave the segments of the image alone (`backup_hold`), and whether it did shows in
their headers, which are read again after each copy. What was copied stays copied, so each round has less to do.

A backup holds everything that was receipted before it began. If it fails, or is killed, the one before it stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import crc32c
import msgspec

from holdfast.backup import image as images
from holdfast.backup.copied_journal import CopiedJournal
from holdfast.backup.image import Image
from holdfast.backup.manifest import CopiedFile, CopiedSegment, Manifest
from holdfast.backup.plan import planned
from holdfast.backup.target import OnCopied, Target, parts_of
from holdfast.channel.journal.files.backup_hold import BackupHold
from holdfast.channel.journal.files.disk import PosixDisk
from holdfast.channel.journal.files.layout import HEADER_BYTES, NewerVersion, NotAHeader, decode_header, segment_name
from holdfast.channel.journal.reading.inspection import verify
from holdfast.errors import DiskFailed, HoldfastError, JournalDamaged, NotABackup, NotAJournal, Unavailable
from holdfast.node.identity import restored_in
from holdfast.node.node import IDENTITY_FILE, JOURNAL_FOLDER

# A journal that is used again faster than it is copied is given up after so many rounds.
ROUNDS_MAX = 20
# Files of the data folder beside the journal; larger ones are not ours, and are left out.
FILE_BYTES_MAX = 1 << 20
_PREPARING = ".preparing"

# Called with what is being done, its bytes in all, and those that are done.
OnProgress = Callable[[str, int, int], None]


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds, and what this run copied of it. `left_out`: files of the folder that are too large to be settings."""

    target: str
    incarnation: str
    first: int
    entry: int
    segments: int
    bytes: int
    copied_segments: int
    copied_bytes: int
    rounds: int
    is_held: bool
    left_out: list[str]


class _Recycled(Exception):
    """A segment was used again before it was copied."""


class _Copied(NamedTuple):
    image: Image
    segments: tuple[CopiedSegment, ...]
    rounds: int
    is_held: bool


def back_up(data: Path, target: Path, release: str, on_progress: OnProgress | None = None) -> BackupReport:
    """Copy the data folder into the folder of the backup, and judge the copy.

    NotAJournal, NotABackup, UnknownVersion, JournalDamaged when the journal is, DiskFailed, Unavailable when another backup is
    under way or the journal changes too fast.
    """
    journal = _journal_of(data)
    with _disk_errors(target):
        opened = Target.open(target)
        try:
            return _Backup(data, journal, opened, release, on_progress or _silently).run()
        finally:
            opened.close()


class _Backup:
    def __init__(self, data: Path, journal: Path, target: Target, release: str, on_progress: OnProgress) -> None:
        self._data = data
        self._journal = journal
        self._target = target
        self._release = release
        self._on_progress = on_progress
        self._disk = PosixDisk()
        self._written: dict[tuple[int, int, int, int], CopiedSegment] = {}

    def run(self) -> BackupReport:
        former = self._target.manifest()
        hold = BackupHold.take(self._journal)
        try:
            copied = self._copy_all(former, hold)
        finally:
            if hold is not None:
                hold.end()
        files, left_out = self._copy_files()
        manifest = self._manifest(copied, files)
        self._judge(manifest)
        self._target.write_manifest(manifest)
        self._target.tidy(manifest)
        return BackupReport(
            target=str(self._target.folder),
            incarnation=manifest.incarnation,
            first=manifest.first,
            entry=manifest.entry,
            segments=len(manifest.segments),
            bytes=manifest.bytes,
            copied_segments=len(self._written),
            copied_bytes=sum(each.bytes for each in self._written.values()),
            rounds=copied.rounds,
            is_held=copied.is_held,
            left_out=left_out,
        )

    # --- segments ------------------------------------------------------------------------------------------------------

    def _copy_all(self, former: Manifest | None, hold: BackupHold | None) -> _Copied:
        there = {each.key: each for each in former.segments} if former else {}
        for rounds in range(1, ROUNDS_MAX + 1):
            image = self._image(former, hold)
            plan = planned(image.segments, (there | self._written).values())
            try:
                self._copy(plan.copied, plan.bytes, hold)
            except _Recycled:
                continue
            known = there | self._written
            return _Copied(image, tuple(known[each.key] for each in image.segments), rounds, hold is not None)
        raise Unavailable(
            f"the journal in {self._journal} was used again faster than it could be copied, {ROUNDS_MAX} times; the former "
            "backup stays; give the target a faster disk, or back up when less is sent"
        )

    def _image(self, former: Manifest | None, hold: BackupHold | None) -> Image:
        """Take an image and have its segments held: those of one that is taken when they are."""
        image = images.take(self._disk, self._journal)
        if former is not None and former.journal != image.journal_id.hex():
            raise NotABackup(
                f"{self._target.folder} holds the backup of another journal, made {former.made_at}; name another folder",
                folder=str(self._target.folder),
            )
        if hold is None:
            return image
        hold.want(each.number for each in image.segments)
        image = images.take(self._disk, self._journal)
        hold.want(each.number for each in image.segments)
        return image

    def _copy(self, segments: tuple[CopiedSegment, ...], size: int, hold: BackupHold | None) -> None:
        done = 0

        def copied(count: int) -> None:
            nonlocal done
            done += count
            self._on_progress("copying", size, done)

        for each in segments:
            self._written[each.key] = self._copy_segment(each, copied)
            if hold is not None:
                hold.renew()

    def _copy_segment(self, segment: CopiedSegment, on_copied: OnCopied) -> CopiedSegment:
        source = self._journal / segment_name(segment.number)
        checksum = self._target.add(segment.file, self._parts(source, segment), on_copied)
        return msgspec.structs.replace(segment, checksum=checksum)

    def _parts(self, source: Path, segment: CopiedSegment) -> Iterator[bytes]:
        """Read a segment, and then its header again: a segment that is used again has another one from the first byte on."""
        yield from parts_of(source, segment.bytes)
        for head in parts_of(source, HEADER_BYTES):
            try:
                header = decode_header(head)
            except (NotAHeader, NewerVersion):
                raise _Recycled from None
            if (header.generation, header.life) != (segment.generation, segment.life):
                raise _Recycled

    # --- everything else -----------------------------------------------------------------------------------------------

    def _copy_files(self) -> tuple[list[CopiedFile], list[str]]:
        files, left_out = [], []
        for path in sorted(self._data.iterdir()):
            if not path.is_file() or path.name.endswith(_PREPARING):
                continue
            if path.stat().st_size > FILE_BYTES_MAX:
                left_out.append(path.name)
                continue
            data = path.read_bytes()
            copied = CopiedFile(path.name, len(data), crc32c.crc32c(data))
            self._target.add(copied.file, (data,))
            files.append(copied)
        return files, left_out

    def _manifest(self, copied: _Copied, files: list[CopiedFile]) -> Manifest:
        image, journal = copied.image, copied.image.journal_id.hex()
        return Manifest(
            release=self._release,
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            journal=journal,
            incarnation=restored_in(self._data / IDENTITY_FILE).incarnation(journal),
            segment_bytes=image.segment_bytes,
            first=image.first,
            entry=image.entry,
            segments=list(copied.segments),
            files=files,
        )

    def _judge(self, manifest: Manifest) -> None:
        """Read the copy back, and judge it as a journal is judged."""
        self._on_progress("reading back", manifest.bytes, 0)
        found = verify(self._target.folder, disk=CopiedJournal(self._target.folder, manifest))
        if not found.is_usable or found.durable != manifest.entry:
            raise JournalDamaged(
                f"the copy is not whole: {found.sentence}. The former backup stays as it was; `holdfast journal verify "
                f"{self._data}` tells whether the journal is",
                file=found.file,
                byte=found.byte,
            )


def _journal_of(data: Path) -> Path:
    journal = data / JOURNAL_FOLDER
    if journal.is_dir():
        return journal
    if (data / "recording").is_dir():
        raise NotAJournal(
            f"{data} is the folder of a recorder, whose events are forwarded, not backed up: see `holdfast forward`",
            folder=str(data),
        )
    raise NotAJournal(f"{data} holds no journal; name the data folder of a server or program", folder=str(data))


@contextmanager
def _disk_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except HoldfastError:
        raise
    except OSError as problem:
        where = problem.filename or target
        raise DiskFailed(
            f"{where}: {problem.strerror or problem}; make room or mend the disk; a former backup in {target} is as it was",
            reason=str(problem),
        ) from problem


def _silently(what: str, size: int, done: int) -> None:
    """Show nothing."""
