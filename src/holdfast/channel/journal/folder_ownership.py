"""Ownership of a folder: lock it, look at it, repair a torn tail, and write all promised space before the first event.

lock ─▶ look ─▶ repair ─▶ fill (segments up to the initial size, reserves included) ─▶ Ownership
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from holdfast.channel.journal.files.disk import Disk, DiskFile, Lock, LockTaken
from holdfast.channel.journal.files.layout import JOURNAL_ID_BYTES, LOCK_NAME, MARK_BYTES, MARK_NAME, PREPARING_SUFFIX
from holdfast.channel.journal.reading.found_journal import FoundJournal, look
from holdfast.channel.journal.reading.recovery import is_without_journal
from holdfast.channel.journal.reading.segment_reader import SegmentReader
from holdfast.channel.journal.settings import JournalSettings, Plan, plan
from holdfast.channel.journal.space import Space
from holdfast.channel.journal.writer import TailSegment, Writer
from holdfast.errors import DiskFailed, JournalInUse

# Zeros are written over a torn tail in pieces of this size.
_ERASE_BYTES = 1 << 20


class Ownership(NamedTuple):
    """The parts of an open journal, and its lock."""

    folder: Path
    plan: Plan
    space: Space
    writer: Writer
    reader: SegmentReader
    mark: DiskFile | None
    lock: Lock

    def let_go(self) -> None:
        """Close everything and unlock. The mark is synced: the next opening notices every entry that is missing."""
        self.writer.close()
        if self.mark:
            try:
                self.mark.sync()
            except OSError:
                pass  # an older mark is still true
            self.mark.close()
        self.reader.close()
        self.space.close()
        self.lock.release()


def own(
    disk: Disk, folder: Path, settings: JournalSettings, dice: Callable[[int], bytes], clock: Callable[[], float]
) -> Ownership:
    """Take the folder; see `Journal.open` for what is raised."""
    lock: Lock | None = None
    try:
        disk.make_folder(folder)
        is_without_journal(disk.names(folder))
        lock = _locked(disk, folder)
        return _own(disk, folder, settings, dice, clock, lock)
    except BaseException as problem:
        if lock:
            lock.release()
        if isinstance(problem, OSError):
            raise _failed(folder, problem) from problem
        raise


def _locked(disk: Disk, folder: Path) -> Lock:
    try:
        return disk.lock(folder / LOCK_NAME)
    except LockTaken as taken:
        raise JournalInUse(
            f"the journal in {folder} is {taken}; stop that one, or give this one a folder of its own", holder=taken.holder or 0
        ) from None


def _own(
    disk: Disk, folder: Path, settings: JournalSettings, dice: Callable[[int], bytes], clock: Callable[[], float], lock: Lock
) -> Ownership:
    found = look(disk, folder)
    planned = plan(settings, found.segment_bytes)
    tail_file = _repair(disk, folder, found)
    journal_id = found.journal_id or dice(JOURNAL_ID_BYTES)
    space = Space(disk, folder, planned, journal_id, len(found.headers), found.spares)
    _fill(space, planned, clock, is_new=not found.chain)
    mark = _mark_file(disk, folder)
    tail = TailSegment(
        found.chain[-1] if found.chain else None,
        tail_file,
        highest_generation=found.judged.highest_generation,
        journal_id=journal_id,
        segment_bytes=planned.segment_bytes,
        dice=dice,
    )
    writer = Writer(
        chain=found.chain,
        kept=found.kept,
        next_entry=found.next_entry,
        marks=found.marks,
        journal_id=journal_id,
        space=space,
        tail=tail,
        mark_file=mark,
    )
    writer.write_mark()
    space.warm()
    return Ownership(folder, planned, space, writer, SegmentReader(disk, folder, writer, settings.read_cache_bytes), mark, lock)


def _repair(disk: Disk, folder: Path, found: FoundJournal) -> DiskFile | None:
    """Erase void records behind the tail, sync the rest, and open the tail for writing.

    The sync is needed: a process that died may have left records that are not on the disk yet.
    """
    for name in disk.names(folder):
        if name.endswith(PREPARING_SUFFIX):
            disk.unlink(folder / name)
    if not found.chain:
        return None
    file = disk.open(folder / found.chain[-1].name, is_writable=True)
    for at in range(found.tail.end, found.tail.erase_to, _ERASE_BYTES):
        file.write((bytes(min(_ERASE_BYTES, found.tail.erase_to - at)),), at)
    file.sync()
    return file


def _fill(space: Space, planned: Plan, clock: Callable[[], float], *, is_new: bool) -> None:
    """Make segments up to the initial size. Without room a new journal is refused; one that holds entries opens, and is short."""
    while space.total < planned.initial_segments:
        try:
            space.adopt(space.make())
        except OSError as problem:
            if is_new:
                raise
            space.could_not_make(problem, clock())
            return


def _mark_file(disk: Disk, folder: Path) -> DiskFile | None:
    """Return the file of the durable mark; None when there is no room for it: then no mark says what is durable."""
    path = folder / MARK_NAME
    try:
        if MARK_NAME in disk.names(folder):
            return disk.open(path, is_writable=True)
        draft = path.with_name(MARK_NAME + PREPARING_SUFFIX)
        file = disk.create(draft, MARK_BYTES)
        file.sync()
        disk.rename(draft, path)
        disk.sync_folder(folder)
    except OSError:
        return None
    return file


def _failed(folder: Path, problem: OSError) -> DiskFailed:
    advice = _ADVICE.get(problem.errno or 0, "make room or mend the disk, then try again")
    return DiskFailed(f"the journal in {folder} cannot be opened: {problem.strerror or problem}; {advice}", reason=str(problem))


_ADVICE = {
    errno.ENOTDIR: "a part of this path is a file; choose a folder",
    errno.EEXIST: "a file has that name; choose a folder",
    errno.EACCES: "give this user the right to write there, or choose another folder",
    errno.EPERM: "give this user the right to write there, or choose another folder",
    errno.EROFS: "the file system is read-only; choose another folder",
    errno.EMFILE: "allow this process more open files (ulimit -n), then try again",
}
