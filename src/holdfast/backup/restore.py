"""Restoring a backup: `holdfast restore TARGET DIR`, into an empty folder, as a new incarnation.

    read all files, judge the copy ─▶ DIR/.restoring: segments, mark, files ─▶ new incarnation ─▶ judge it ─▶ names, journal last

What the lost journal accepted after the backup is gone, and its numbers are given to other events. So the restored journal is
another incarnation (`event.incarnation`): clients, recorders and Spark notice it in the greeting, and take no number of
before for one of now. Two folders that are restored from one backup are two incarnations.

The journal gets its name last: a restore that was interrupted leaves a folder without a journal.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from holdfast.backup.copied_journal import CopiedJournal
from holdfast.backup.manifest import Manifest
from holdfast.backup.target import check_files, manifest_in, parts_of, private, sync_folder
from holdfast.channel.journal.files.disk import PosixDisk
from holdfast.channel.journal.files.layout import MARK_NAME, segment_name
from holdfast.channel.journal.reading.inspection import verify
from holdfast.errors import BackupDamaged, DiskFailed, FolderNotEmpty, NotABackup
from holdfast.node.identity import restored_again
from holdfast.node.node import IDENTITY_FILE, JOURNAL_FOLDER

RESTORING = ".restoring"

OnProgress = Callable[[str, int, int], None]


class RestoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was restored: the journal up to `entry`, as it was at `made_at`."""

    folder: str
    incarnation: str
    former_incarnation: str
    made_at: str
    release: str
    first: int
    entry: int
    files: list[str]


def restore(target: Path, folder: Path, on_progress: OnProgress | None = None) -> RestoreReport:
    """Make the data folder of a backup anew. NotABackup, UnknownVersion, BackupDamaged, FolderNotEmpty, DiskFailed."""
    try:
        return _Restore(target, folder, on_progress or _silently).run()
    except OSError as problem:
        raise DiskFailed(
            f"{problem.filename or folder}: {problem.strerror or problem}; nothing was restored: empty {folder}, make room or "
            "mend the disk, then restore again",
            reason=str(problem),
        ) from problem


class _Restore:
    def __init__(self, target: Path, folder: Path, on_progress: OnProgress) -> None:
        self._target = target
        self._folder = folder
        self._on_progress = on_progress
        self._disk = PosixDisk()

    def run(self) -> RestoreReport:
        manifest = manifest_in(self._target) if self._target.is_dir() else None
        if manifest is None:
            raise NotABackup(
                f"{self._target} holds no backup that was finished; name the TARGET of one", folder=str(self._target)
            )
        self._check_empty()
        self._check_backup(manifest)
        self._check_room(manifest)
        draft = self._folder / RESTORING
        (draft / JOURNAL_FOLDER).mkdir(mode=0o750, parents=True)
        self._make_journal(manifest, draft / JOURNAL_FOLDER)
        for each in manifest.files:
            self._make_file(draft / each.name, each.file, each.bytes)
        restored = restored_again(draft / IDENTITY_FILE)
        names = self._name_all(draft)
        return RestoreReport(
            folder=str(self._folder),
            incarnation=restored.incarnation(manifest.journal),
            former_incarnation=manifest.incarnation,
            made_at=manifest.made_at,
            release=manifest.release,
            first=manifest.first,
            entry=manifest.entry,
            files=names,
        )

    # --- checks --------------------------------------------------------------------------------------------------------

    def _check_empty(self) -> None:
        if not self._folder.exists():
            return
        held = sorted(os.listdir(self._folder)) if self._folder.is_dir() else [self._folder.name]
        if held:
            raise FolderNotEmpty(
                f"{self._folder} holds {held[0]!r}; a backup is restored into an empty folder: name another one, or move away "
                "what is there",
                folder=str(self._folder),
            )

    def _check_backup(self, manifest: Manifest) -> None:
        done = 0

        def read(count: int) -> None:
            nonlocal done
            done += count
            self._on_progress("checking", manifest.bytes, done)

        check_files(self._target, manifest, read)
        found = verify(self._target, disk=CopiedJournal(self._target, manifest))
        if not found.is_usable or found.durable != manifest.entry:
            raise BackupDamaged(f"the backup in {self._target} is not whole: {found.sentence}; use another one", file=found.file)

    def _check_room(self, manifest: Manifest) -> None:
        there = next(each for each in (self._folder, *self._folder.absolute().parents) if each.exists())
        needed, free = manifest.segment_count * manifest.segment_bytes, shutil.disk_usage(there).free
        if needed > free:
            raise DiskFailed(
                f"the journal needs {needed:,} bytes, and the disk of {self._folder} has {free:,} bytes free; make room, or name "
                "a folder on another disk",
                needed_bytes=needed,
                free_bytes=free,
            )

    # --- making --------------------------------------------------------------------------------------------------------

    def _make_journal(self, manifest: Manifest, journal: Path) -> None:
        copy = CopiedJournal(self._target, manifest)
        copied = {each.number: each for each in manifest.segments}
        for number in range(1, manifest.segment_count + 1):
            file = self._disk.create(journal / segment_name(number), manifest.segment_bytes)
            try:
                at, segment = 0, copied.get(number)
                parts = (copy.spare(number),) if segment is None else parts_of(self._target / segment.file, segment.bytes)
                for part in parts:
                    file.write((part,), at)
                    at += len(part)
                file.sync()
            finally:
                file.close()
            self._on_progress("restoring", manifest.segment_count * manifest.segment_bytes, number * manifest.segment_bytes)
        self._write(journal / MARK_NAME, copy.mark())
        sync_folder(journal)
        found = verify(journal)
        if not found.is_usable or found.durable != manifest.entry:
            raise DiskFailed(f"what was written to {journal} is not what was read: {found.sentence}; look at the disk")

    def _make_file(self, path: Path, source: str, length: int) -> None:
        self._write(path, b"".join(parts_of(self._target / source, length)))

    def _write(self, path: Path, data: bytes) -> None:
        if not data:
            return
        with open(path, "xb", opener=private) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def _name_all(self, draft: Path) -> list[str]:
        sync_folder(draft)
        names = sorted(name for name in os.listdir(draft) if name != JOURNAL_FOLDER)
        for name in (*names, JOURNAL_FOLDER):
            (draft / name).rename(self._folder / name)
        draft.rmdir()
        sync_folder(self._folder)
        sync_folder(self._folder.absolute().parent)
        return names


def _silently(what: str, size: int, done: int) -> None:
    """Show nothing."""
