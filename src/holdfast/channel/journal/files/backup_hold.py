"""The hold of a backup: a file in the folder of a journal that asks its owner not to use some segments again yet.

    backup.hold     {"segments": [3, 4, 7]}     locked (`flock`) by the backup, touched while it copies

A backup in another process writes it; the owner looks at it when it is about to use a segment again. It ends by itself:

    with the backup, in whatever way that ends    the lock is gone
    a minute after it was touched                 a backup that stands still
    with more bytes than the owner lends          see `space`

A hold is a wish. An owner that has nothing else to write to uses a held segment all the same, and the backup copies again.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import msgspec

from holdfast.channel.journal.files.layout import HOLD_NAME

# So long after a backup said anything it counts as standing still.
HOLD_S = 60.0
_BYTES_MAX = 1 << 20
NOTHING: frozenset[int] = frozenset()


class _Wish(msgspec.Struct, frozen=True):
    segments: list[int]


def held_segments(folder: Path) -> frozenset[int]:
    """Return the numbers that a living backup wants to be left alone. Whatever is wrong with its file, it holds nothing then."""
    try:
        file = os.open(folder / HOLD_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return NOTHING
    try:
        if not _is_locked(file) or abs(time.time() - os.fstat(file).st_mtime) > HOLD_S:
            return NOTHING
        line = os.pread(file, _BYTES_MAX, 0).partition(b"\n")[0]
        return frozenset(msgspec.json.decode(line, type=_Wish).segments)
    except (OSError, msgspec.MsgspecError):
        return NOTHING
    finally:
        os.close(file)


def _is_locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


class BackupHold:
    """The backup's end of it. Use `take`."""

    def __init__(self, path: Path, file: int) -> None:
        self._path = path
        self._file = file

    @classmethod
    def take(cls, folder: Path) -> Self | None:
        """Take the hold of this journal. None when another backup has it, or nothing can be written there."""
        path = folder / HOLD_NAME
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_named = os.fstat(file).st_nlink > 0  # otherwise the backup before this one has just ended
        except OSError:
            is_named = False
        if not is_named:
            os.close(file)
            return None
        return cls(path, file)

    def want(self, segments: Iterable[int]) -> None:
        """Hold these, in place of those before. The first line counts, so that a reader never sees half of it."""
        line = msgspec.json.encode(_Wish(sorted(segments))) + b"\n"
        try:
            os.pwrite(self._file, line, 0)
            os.ftruncate(self._file, len(line))
        except OSError:
            pass  # no room for a wish: then nothing is held

    def renew(self) -> None:
        os.utime(self._file)

    def end(self) -> None:
        try:
            os.unlink(self._path)
        except OSError:
            pass  # the lock says that it is over
        os.close(self._file)
