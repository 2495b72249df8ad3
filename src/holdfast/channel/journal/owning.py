"""Owning a folder: lock it, look at it, repair a torn tail, and see that everything promised is on disk before the first event.

lock ─▶ look ─▶ repair ─▶ fill (segments up to the initial size, reserves included) ─▶ Owned
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from holdfast.channel.journal.disk import Disk, DiskFile, Lock, LockTaken
from holdfast.channel.journal.layout import JOURNAL_ID_BYTES, LOCK_NAME, MARK_BYTES, MARK_NAME, PREPARING_SUFFIX
from holdfast.channel.journal.opening import look, repair
from holdfast.channel.journal.reading import Reading
from holdfast.channel.journal.recovery import is_without_journal
from holdfast.channel.journal.settings import JournalSettings, Plan, plan
from holdfast.channel.journal.space import Space
from holdfast.channel.journal.tail_segment import TailSegment
from holdfast.channel.journal.writer import Writer
from holdfast.errors import DiskFailed, JournalInUse


class Owned(NamedTuple):
    """What an open journal is made of."""

    folder: Path
    plan: Plan
    space: Space
    writer: Writer
    reading: Reading
    mark: DiskFile | None
    lock: Lock

    def let_go(self) -> None:
        """The mark is synced on the way out: from here on, whatever is missing is known to be."""
        self.writer.close()
        if self.mark:
            try:
                self.mark.sync()
            except OSError:
                pass  # an older mark is still true
            self.mark.close()
        self.reading.close()
        self.space.close()
        self.lock.release()


def own(disk: Disk, folder: Path, settings: JournalSettings, dice: Callable[[int], bytes], clock: Callable[[], float]) -> Owned:
    """See `Journal.open` for what is raised."""
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
) -> Owned:
    found = look(disk, folder)
    planned = plan(settings, found.segment_bytes)
    tail_file = repair(disk, folder, found)
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
    return Owned(folder, planned, space, writer, Reading(disk, folder, writer, settings.read_cache_bytes), mark, lock)


def _fill(space: Space, planned: Plan, clock: Callable[[], float], *, is_new: bool) -> None:
    """A new journal is refused where there is no room for it; one that holds something opens all the same, and is short."""
    while space.total < planned.initial_segments:
        try:
            space.adopt(space.make())
        except OSError as problem:
            if is_new:
                raise
            space.could_not_make(problem, clock())
            return


def _mark_file(disk: Disk, folder: Path) -> DiskFile | None:
    """The file of the durable mark; None when there is none and no room for it: then nothing is claimed."""
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
    errno.ENOTDIR: "something on the way is a file; choose a folder",
    errno.EEXIST: "there is a file of that name; choose a folder",
    errno.EACCES: "give this user the right to write there, or choose another folder",
    errno.EPERM: "give this user the right to write there, or choose another folder",
    errno.EROFS: "the file system is read-only; choose another folder",
    errno.EMFILE: "allow this process more open files (ulimit -n), then try again",
}
