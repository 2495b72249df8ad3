"""A disk that behaves as badly as a disk may, and no worse.

    write          is seen by readers at once, and is durable when a sync after it has returned
    crash          every sector written and not synced has its old or its new content, in any combination; names that were made,
                   changed or removed since the last sync of their folder are there or not
    failed sync    the writes it should have made durable may be lost by a crash, and no later sync of that file changes this
    full           no file grows, none is made

A `Survival` decides what survives a crash; `faults` decide which calls fail. The same decisions give the same disk.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.channel.journal.files.disk import SECTOR_BYTES, Buffer, LockTaken


class PowerCut(Exception):
    """The machine is gone; the disk is what `after_crash` says."""


class Call(NamedTuple):
    """One call that reaches the disk: its number (from 1), the operation and the path."""

    number: int
    operation: str
    path: Path


# For `faults`: half of the bytes are written, and the write fails.
SHORT_WRITE = -1

Faults = Callable[[Call], int]
Survival = Callable[[], bool]


def nothing_survives() -> bool:
    return False


def everything_survives() -> bool:
    return True


def by_seed(seed: int) -> Survival:
    dice = random.Random(seed)
    likely = dice.random()
    return lambda: dice.random() < likely


def by_choice(bits: int) -> Survival:
    """Decide by bits, the lowest first. All numbers below 2**n give every outcome of n undecided things."""

    def survives() -> bool:
        nonlocal bits
        bits, bit = bits >> 1, bits & 1
        return bool(bit)

    return survives


class _Write(NamedTuple):
    at: int
    data: bytes

    def sectors(self) -> list[_Write]:
        """Return the same write, cut where sectors begin: each part survives or not on its own."""
        parts, at, end = [], self.at, self.at + len(self.data)
        while at < end:
            stop = min(end, (at // SECTOR_BYTES + 1) * SECTOR_BYTES)
            parts.append(_Write(at, self.data[at - self.at : stop - self.at]))
            at = stop
        return parts


class _Body:
    """The content of a file: as readers see it, as it was at the last sync, and the writes between."""

    def __init__(self, data: bytes = b"") -> None:
        self.now = bytearray(data)
        self.synced = bytearray(data)
        self.unsynced: list[_Write] = []
        self.doomed: list[_Write] = []

    def write(self, write: _Write) -> None:
        _apply(self.now, write)
        self.unsynced.append(write)

    def sync(self) -> None:
        """Make writes durable, whole sectors at a time, with the bytes that an earlier failed sync left in them."""
        written = {sector.at // SECTOR_BYTES for write in self.unsynced for sector in write.sectors()}
        self.doomed = [sector for sector in self.doomed if sector.at // SECTOR_BYTES not in written]
        for number in written:
            at = number * SECTOR_BYTES
            _apply(self.synced, _Write(at, bytes(self.now[at : at + SECTOR_BYTES])))
        self.unsynced.clear()

    def fail_sync(self) -> None:
        self.doomed += [sector for write in self.unsynced for sector in write.sectors()]
        self.unsynced.clear()

    def undecided(self) -> list[_Write]:
        return self.doomed + [sector for write in self.unsynced for sector in write.sectors()]

    def after_crash(self, survives: Survival) -> _Body:
        data = bytearray(self.synced)
        for sector in self.undecided():
            if survives():
                _apply(data, sector)
        return _Body(bytes(data))


def _apply(data: bytearray, write: _Write) -> None:
    if len(data) < write.at:
        data.extend(bytes(write.at - len(data)))
    data[write.at : write.at + len(write.data)] = write.data


class _Change(NamedTuple):
    """A folder's entry that was made (`body`), moved (`old` to `path`) or removed (neither)."""

    path: Path
    body: _Body | None = None
    old: Path | None = None


class SimulatedFile:
    def __init__(self, disk: SimulatedDisk, path: Path, body: _Body, *, is_writable: bool) -> None:
        self._disk = disk
        self._path = path
        self._body = body
        self._is_writable = is_writable

    @property
    def size(self) -> int:
        return len(self._body.now)

    def write(self, parts: Sequence[Buffer], at: int) -> None:
        assert self._is_writable, f"{self._path} was opened for reading"
        data = b"".join(parts)
        fault = self._disk.call("write", self._path)
        if fault == SHORT_WRITE:
            self._body.write(_Write(at, data[: self._short(at, len(data))]))
            raise OSError(errno.EIO, "short write")
        _raise(fault)
        self._body.write(_Write(at, data))

    @staticmethod
    def _short(at: int, length: int) -> int:
        """Return about half of the length, up to the end of a sector: systems write by pages."""
        end = (at + length // 2) // SECTOR_BYTES * SECTOR_BYTES
        return end - at if end > at else 0

    def read(self, length: int, at: int) -> bytes:
        self._disk.check_power()
        return bytes(self._body.now[at : at + length])

    def sync(self) -> None:
        fault = self._disk.call("sync", self._path)
        if fault:
            self._body.fail_sync()
        _raise(fault)
        self._body.sync()

    def close(self) -> None:
        return


class SimulatedLock:
    def __init__(self, held: set[Path], path: Path) -> None:
        self._held = held
        self._path = path

    def release(self) -> None:
        self._held.discard(self._path)


class SimulatedDisk:
    """Implements `channel.journal.files.disk.Disk`. `cut_at`: the power is cut after so many calls."""

    def __init__(self, *, cut_at: int | None = None, faults: Faults | None = None, size_bytes: int | None = None) -> None:
        self.calls = 0
        self.cut_at = cut_at
        self.faults = faults
        self.size_bytes = size_bytes
        self._now: dict[Path, _Body] = {}
        self._synced: dict[Path, _Body] = {}
        self._changes: list[_Change] = []
        self._locked: set[Path] = set()

    # --- what happens to it --------------------------------------------------------------------------------------------

    def call(self, operation: str, path: Path) -> int:
        """Count a call; return its fault, 0 for none. PowerCut when the power is cut at this call."""
        self.check_power()
        self.calls += 1
        return self.faults(Call(self.calls, operation, path)) if self.faults else 0

    def check_power(self) -> None:
        if self.cut_at is not None and self.calls >= self.cut_at:
            raise PowerCut

    def undecided(self) -> int:
        """Return how many things a crash would decide now."""
        return len(self._changes) + sum(len(body.undecided()) for body in self._bodies())

    def after_crash(self, survives: Survival) -> SimulatedDisk:
        """Return the disk as it is after the power comes back."""
        found = SimulatedDisk()
        names = dict(self._synced)
        for change in self._changes:
            if survives():
                _change(names, change)
        survivors = {id(body): body.after_crash(survives) for body in self._bodies()}
        found._synced = {path: survivors[id(body)] for path, body in names.items()}
        found._now = dict(found._synced)
        return found

    def _bodies(self) -> list[_Body]:
        """Return every file once, in an order that does not depend on the run."""
        bodies = [*self._synced.values(), *self._now.values(), *(change.body for change in self._changes if change.body)]
        return list({id(body): body for body in bodies}.values())

    def content(self, path: Path) -> bytearray:
        """Return the bytes of a file, to be damaged by a test: a change here is durable."""
        body = self._now[path]
        body.synced = body.now
        return body.now

    def copy(self) -> SimulatedDisk:
        """Return a copy of the disk, with everything on it durable."""
        copied = SimulatedDisk()
        copied._synced = {path: _Body(bytes(body.now)) for path, body in self._now.items()}
        copied._now = dict(copied._synced)
        return copied

    # --- Disk ----------------------------------------------------------------------------------------------------------

    def make_folder(self, folder: Path) -> None:
        return

    def names(self, folder: Path) -> list[str]:
        self.check_power()
        return sorted(path.name for path in self._now if path.parent == folder)

    def sync_folder(self, folder: Path) -> None:
        _raise(self.call("sync folder", folder))
        for change in self._changes:
            _change(self._synced, change)
        self._changes.clear()

    def create(self, path: Path, size: int) -> SimulatedFile:
        fault = self.call("create", path)
        if path in self._now:
            raise FileExistsError(errno.EEXIST, "file exists", str(path))
        body = _Body()
        self._record(_Change(path, body))
        _raise(fault or self._full(size))
        body.write(_Write(0, bytes(size)))
        return SimulatedFile(self, path, body, is_writable=True)

    def _full(self, size: int) -> int:
        used = sum(len(body.now) for body in self._now.values())
        return errno.ENOSPC if self.size_bytes is not None and used + size > self.size_bytes else 0

    def open(self, path: Path, *, is_writable: bool) -> SimulatedFile:
        self.check_power()
        if path not in self._now:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        return SimulatedFile(self, path, self._now[path], is_writable=is_writable)

    def rename(self, old: Path, new: Path) -> None:
        _raise(self.call("rename", new))
        self._record(_Change(new, self._now[old], old))

    def unlink(self, path: Path) -> None:
        _raise(self.call("unlink", path))
        self._record(_Change(path))

    def _record(self, change: _Change) -> None:
        _change(self._now, change)
        self._changes.append(change)

    def lock(self, path: Path) -> SimulatedLock:
        self.check_power()
        if path in self._locked:
            raise LockTaken(None)
        self._locked.add(path)
        return SimulatedLock(self._locked, path)


def _change(names: dict[Path, _Body], change: _Change) -> None:
    if change.old is not None:
        names.pop(change.old, None)
    if change.body is not None:
        names[change.path] = change.body
    else:
        names.pop(change.path, None)


def _raise(fault: int) -> None:
    if fault:
        raise OSError(fault, errno.errorcode.get(fault, str(fault)))
