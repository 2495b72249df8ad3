"""The identity of a node, kept beside its journal: its number, and the limit of the starts it has given out.

    two slots of 512 bytes in one preallocated file, written in turn:
    magic 8 │ version u32 │ turn u64 │ site u16 │ node u32 │ start limit u64 │ checksum u32

The newest slot with a valid checksum counts; a torn write costs at most the older half. The file gets its name when its first
slot is durable: a file that is empty or cut is damaged, not new. It needs no more disk space after the first start, so a full
disk cannot keep a node from giving out identifiers.
"""

from __future__ import annotations

import os
import secrets
import struct
import time
from pathlib import Path

import crc32c

from holdfast.errors import Damaged, UnknownVersion
from holdfast.event.identifier import Counter, Parts, Starts, compose

_SLOT = struct.Struct("<8sIQHIQ")
_SLOT_BYTES = 512
_MAGIC = b"HFIDENT\0"
_VERSION = 1
_PREPARING = ".preparing"


class Identity:
    """Gives out starts and identifiers; every start is below the limit on disk before it is used."""

    def __init__(self, starts: Starts, file: int | None = None, turn: int = 0) -> None:
        self._starts = starts
        self._file = file
        self._turn = turn
        self._counter = Counter.of(starts, self._take_start())

    @classmethod
    def in_memory(cls, site: int = 0) -> Identity:
        return cls(Starts(site, secrets.randbits(32)))

    @classmethod
    def open(cls, path: Path, site: int) -> Identity:
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return cls._create(path, site)
        try:
            turn, known_site, node, limit = _newest(file, path)
            return cls(Starts(known_site, node, limit), file, turn)
        except BaseException:
            os.close(file)
            raise

    @classmethod
    def _create(cls, path: Path, site: int) -> Identity:
        draft = path.with_name(path.name + _PREPARING)
        file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(file, bytes(2 * _SLOT_BYTES), 0)
            made = cls(Starts(site, secrets.randbits(32)), file)
            os.fsync(file)
            os.rename(draft, path)
            _sync_folder(path.parent)
        except BaseException:
            os.close(file)
            raise
        return made

    @property
    def node(self) -> int:
        return self._starts.node

    def take_start(self) -> int:
        """The first identifier of a new start: 32 bits of counter for a client to count by itself."""
        return compose(Parts(self._take_start(), self._starts.site, self._starts.node, 0))

    def take(self) -> int:
        """One identifier."""
        if not self._counter.left:
            self._counter = Counter.of(self._starts, self._take_start())
        return self._counter.take()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _take_start(self) -> int:
        limit = self._starts.limit
        start = self._starts.take(time.time_ns() // 1_000_000)
        if self._starts.limit != limit and self._file is not None:
            self._turn += 1
            slot = _SLOT.pack(_MAGIC, _VERSION, self._turn, self._starts.site, self._starts.node, self._starts.limit)
            os.pwrite(self._file, slot + crc32c.crc32c(slot).to_bytes(4, "little"), self._turn % 2 * _SLOT_BYTES)
            os.fdatasync(self._file)
        return start


def _newest(file: int, path: Path) -> tuple[int, int, int, int]:
    found = []
    for place in (0, _SLOT_BYTES) if os.fstat(file).st_size == 2 * _SLOT_BYTES else ():
        data = os.pread(file, _SLOT.size + 4, place)
        slot, checksum = data[: _SLOT.size], data[_SLOT.size :]
        if crc32c.crc32c(slot).to_bytes(4, "little") != checksum or not slot.startswith(_MAGIC):
            continue
        _, version, turn, site, node, limit = _SLOT.unpack(slot)
        if version != _VERSION:
            raise UnknownVersion(f"{path} has format {version}, this release reads {_VERSION}; upgrade it", path=str(path))
        found.append((turn, site, node, limit))
    if not found:
        raise Damaged(f"{path} is not whole or has no valid checksum; restore it from a backup, or remove it for a new identity")
    return max(found)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
