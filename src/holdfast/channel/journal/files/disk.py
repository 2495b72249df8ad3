"""The disk as the journal sees it: a few calls, each of which can fail with OSError only.

    Disk        folders, names, and a lock
    DiskFile    one file: write at a byte, read at a byte, sync

The journal calls a disk only through here. So the same journal runs on a real file system (`PosixDisk`) and on a simulated one
that loses, tears and reorders writes that were not synced (`holdfast.simulation.simulated_disk`).

The journal assumes of a disk: synced bytes stay. After a crash, every sector of 512 bytes that was not synced is as it was before
or as it was written, in any combination (a short write ends with a sector, too). A synced folder keeps its names.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

Buffer = bytes | memoryview

SECTOR_BYTES = 512

# Below this many bytes a copy into one buffer is cheaper than a vector of many small ones.
_JOIN_BELOW_BYTES = 1 << 16
# The kernel takes at most 1,024 buffers in one vectored write.
_VECTOR_MAX = 1024
# Zeros are written in pieces of this size when a file is allocated.
_ZEROS_BYTES = 1 << 20


class DiskFile(Protocol):
    @property
    def size(self) -> int: ...

    def write(self, parts: Sequence[Buffer], at: int) -> None:
        """Write the parts one after the other from byte `at` on. A short write is an OSError: some of it may be there."""

    def read(self, length: int, at: int) -> bytes:
        """Return up to `length` bytes from byte `at` on; fewer only at the end of the file."""

    def sync(self) -> None:
        """Make all earlier writes durable. When it raises, nothing is known of them."""

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class LockTaken(Exception):
    """Another process holds the lock. `holder` is its process id, if known."""

    def __init__(self, holder: int | None) -> None:
        super().__init__(f"held by process {holder}" if holder else "held by another process")
        self.holder = holder


class Disk(Protocol):
    def make_folder(self, folder: Path) -> None:
        """Make the folder and its parents, durably."""

    def names(self, folder: Path) -> list[str]:
        """Return the names in the folder, sorted. FileNotFoundError when there is no folder."""

    def sync_folder(self, folder: Path) -> None: ...

    def create(self, path: Path, size: int) -> DiskFile:
        """Create a file of `size` zeros that were really written, not only promised. It is not synced yet."""

    def open(self, path: Path, *, is_writable: bool) -> DiskFile: ...

    def rename(self, old: Path, new: Path) -> None: ...

    def unlink(self, path: Path) -> None: ...

    def lock(self, path: Path) -> Lock:
        """Lock the file. LockTaken when another process (or another journal of this one) has it."""


class PosixFile:
    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def write(self, parts: Sequence[Buffer], at: int) -> None:
        total = sum(map(len, parts))
        if total < _JOIN_BELOW_BYTES or len(parts) > _VECTOR_MAX:
            written = os.pwrite(self._descriptor, b"".join(parts), at)
        else:
            written = os.pwritev(self._descriptor, parts, at)
        if written != total:
            raise OSError(errno.EIO, f"short write: {written} of {total} bytes")

    def read(self, length: int, at: int) -> bytes:
        data = os.pread(self._descriptor, length, at)
        while data and len(data) < length:
            more = os.pread(self._descriptor, length - len(data), at + len(data))
            if not more:
                break
            data += more
        return data

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class PosixLock:
    """`flock` on a file that holds the owner's process id. It is released when the process ends, in any way."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


class PosixDisk:
    """A folder of a real file system."""

    def make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        self.make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        self.sync_folder(folder.parent)

    def names(self, folder: Path) -> list[str]:
        return sorted(os.listdir(folder))

    def sync_folder(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def create(self, path: Path, size: int) -> PosixFile:
        file = PosixFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640))
        try:
            self._allocate(file, size)
        except BaseException:
            file.close()
            raise
        return file

    @staticmethod
    def _allocate(file: PosixFile, size: int) -> None:
        """Allocate a file by writing zeros.

        `fallocate` before them keeps the file in one piece where that is supported, and finds a full disk before any space is
        taken from others.
        """
        try:
            os.posix_fallocate(file._descriptor, 0, size)
        except OSError as problem:
            if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
        zeros = bytes(min(size, _ZEROS_BYTES))
        for at in range(0, size, _ZEROS_BYTES):
            file.write((memoryview(zeros)[: size - at],), at)

    def open(self, path: Path, *, is_writable: bool) -> PosixFile:
        return PosixFile(os.open(path, (os.O_RDWR if is_writable else os.O_RDONLY) | os.O_CLOEXEC))

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def lock(self, path: Path) -> PosixLock:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            said = os.pread(descriptor, 32, 0).strip()
            os.close(descriptor)
            if problem.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            raise LockTaken(int(said) if said.isdigit() else None) from None
        self._sign(descriptor)
        return PosixLock(descriptor)

    @staticmethod
    def _sign(descriptor: int) -> None:
        """Write who holds the lock, for the error that others get. On a full disk it stays unsigned: opening must still work."""
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        except OSError:
            pass
