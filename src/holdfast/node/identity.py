"""The identity of a node, kept beside its journal: its number, the limit of the starts it has given out, and how often the
journal was restored.

    two slots of 512 bytes in one preallocated file, written in turn:
    version 1    magic 8 │ version u32 │ turn u64 │ site u16 │ node u32 │ start limit u64 │ checksum u32
    version 2    the same │ restored u32 │ tag 8 │ checksum u32 of all before it

A folder that was never restored is of version 1, so that older releases open it. One that was restored is of version 2: a release
that cannot tell its clients so must not open it, and says why, because the first 38 bytes are the same in every version.

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
from typing import NamedTuple

import crc32c

from holdfast.errors import Damaged, UnknownVersion
from holdfast.event.identifier import Counter, Parts, Starts, compose, from_text, is_text, take_apart
from holdfast.event.incarnation import NEVER_RESTORED, TAG_BYTES, Restored

_SLOT = struct.Struct("<8sIQHIQ")
_CHECKSUM = struct.Struct("<I")
_RESTORED = struct.Struct(f"<I{TAG_BYTES}s")
_SLOT_BYTES = 512
_MAGIC = b"HFIDENT\0"
_VERSION = 2
_VERSION_UNRESTORED = 1
_PREPARING = ".preparing"


class Identity:
    """Gives out starts and identifiers; every start is below the limit on disk before it is used."""

    def __init__(self, starts: Starts, file: int | None = None, turn: int = 0, restored: Restored = NEVER_RESTORED) -> None:
        self.restored = restored
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
            found = _newest(file, path)
            return cls(Starts(found.site, found.node, found.limit), file, found.turn, found.restored)
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

    def may_have_given(self, session: str) -> bool:
        """Whether the id of a session may be of this incarnation. A restored folder has a node number of its own."""
        text = session.partition("/")[0]
        if not self.restored.times or not is_text(text):
            return True
        return take_apart(from_text(text)).node == self.node

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
            slot = _encoded(_Slot(self._turn, self._starts.site, self._starts.node, self._starts.limit, self.restored))
            os.pwrite(self._file, slot, self._turn % 2 * _SLOT_BYTES)
            os.fdatasync(self._file)
        return start


class _Slot(NamedTuple):
    turn: int
    site: int
    node: int
    limit: int
    restored: Restored


def restored_in(path: Path) -> Restored:
    """How often the journal beside this identity was restored. Nothing is written; without one that can be read it never was."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return NEVER_RESTORED
    try:
        return _newest(file, path).restored
    finally:
        os.close(file)


def restored_again(path: Path) -> Restored:
    """Make the identity of a restored folder from the one that was copied, in place; durable when this returns.

    The node gets another number, so that no identifier of the lost future is given again, whatever the clock says.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        is_there = os.fstat(file).st_size > 0
        former = _newest(file, path) if is_there else _Slot(0, 0, 0, 0, NEVER_RESTORED)
        made = former._replace(turn=1, node=secrets.randbits(32), restored=former.restored.again())
        os.ftruncate(file, 0)
        os.pwrite(file, bytes(_SLOT_BYTES) + _encoded(made).ljust(_SLOT_BYTES, b"\0"), 0)
        os.fsync(file)
    finally:
        os.close(file)
    return made.restored


def _encoded(slot: _Slot) -> bytes:
    version = _VERSION if slot.restored.times else _VERSION_UNRESTORED
    lead = _checked(_SLOT.pack(_MAGIC, version, slot.turn, slot.site, slot.node, slot.limit))
    return _checked(lead + _RESTORED.pack(*slot.restored)) if slot.restored.times else lead


def _checked(data: bytes) -> bytes:
    return data + _CHECKSUM.pack(crc32c.crc32c(data))


def _is_right(data: bytes) -> bool:
    return data == _checked(data[: -_CHECKSUM.size])


def _newest(file: int, path: Path) -> _Slot:
    places = (0, _SLOT_BYTES) if os.fstat(file).st_size == 2 * _SLOT_BYTES else ()
    found = [slot for place in places if (slot := _slot(os.pread(file, _SLOT_BYTES, place), path)) is not None]
    if not found:
        raise Damaged(f"{path} is not whole or has no valid checksum; restore it from a backup, or remove it for a new identity")
    return max(found)


def _slot(data: bytes, path: Path) -> _Slot | None:
    """Return what a slot says; None for one that was never written, or is torn."""
    lead = data[: _SLOT.size + _CHECKSUM.size]
    if not _is_right(lead) or not lead.startswith(_MAGIC):
        return None
    _, version, *fields = _SLOT.unpack_from(lead)
    if version == _VERSION_UNRESTORED:
        return _Slot._make((*fields, NEVER_RESTORED))
    if version != _VERSION:
        raise UnknownVersion(
            f"{path} has format {version}, this release reads up to {_VERSION}; upgrade it", path=str(path), version=version
        )
    whole = data[: len(lead) + _RESTORED.size + _CHECKSUM.size]
    restored = Restored._make(_RESTORED.unpack_from(data, len(lead)))
    return _Slot._make((*fields, restored)) if _is_right(whole) else None


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
