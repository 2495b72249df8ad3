"""A backup seen as the journal it is a copy of: the same names, sizes and bytes, so that the same code judges both.

    segment-000001.hfj     not copied: as a segment that was never used
    segment-000002.hfj     the copied bytes, then zeros up to its size
    durable.mark           made from the manifest

Nothing is written here. `journal.reading.inspection.verify` reads it through, and restoring copies from it.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import NoReturn

from holdfast.backup.manifest import Manifest
from holdfast.channel.journal.files.disk import DiskFile, PosixDisk
from holdfast.channel.journal.files.layout import (
    MARK_NAME,
    DurableMark,
    encode_header,
    encode_mark,
    segment_name,
    spare_header,
)


class PaddedFile:
    """A file that begins with some bytes, and has zeros from there to its size. `file` has them, or they are given."""

    def __init__(self, size: int, beginning: bytes = b"", file: DiskFile | None = None, length: int = 0) -> None:
        self.size = size
        self._beginning = beginning
        self._file = file
        self._length = length if file else len(beginning)

    def read(self, length: int, at: int) -> bytes:
        wanted = max(0, min(length, self.size - at))
        known = max(0, min(wanted, self._length - at))
        data = self._file.read(known, at) if self._file else self._beginning[at : at + known]
        return data + bytes(wanted - known) if len(data) == known else data  # a copy that was cut shows as such

    def write(self, parts: object, at: int) -> NoReturn:
        raise OSError(errno.EROFS, "a backup is not written to")

    def sync(self) -> None: ...

    def close(self) -> None:
        if self._file:
            self._file.close()


class CopiedJournal(PosixDisk):
    """The disk of a journal whose segments lie in the folder of a backup."""

    def __init__(self, target: Path, manifest: Manifest) -> None:
        self._target = target
        self._manifest = manifest
        self._segments = {segment_name(each.number): each for each in manifest.segments}
        self._numbers = {segment_name(number): number for number in range(1, manifest.segment_count + 1)}

    def names(self, folder: Path) -> list[str]:
        return sorted((*self._numbers, MARK_NAME))

    def mark(self) -> bytes:
        """The durable mark that belongs to the copy; nothing for a journal without entries."""
        manifest = self._manifest
        if not manifest.segments:
            return b""
        tail = manifest.segments[-1]
        return encode_mark(DurableMark(bytes.fromhex(manifest.journal), tail.generation, tail.bytes, manifest.entry))

    def spare(self, number: int) -> bytes:
        """The header of a segment that was not copied."""
        return encode_header(spare_header(bytes.fromhex(self._manifest.journal), number, self._manifest.segment_bytes))

    def open(self, path: Path, *, is_writable: bool) -> PaddedFile:  # type: ignore[override]  # reads as a file does
        if path.name == MARK_NAME:
            return PaddedFile(len(self.mark()), self.mark())
        size, copied = self._manifest.segment_bytes, self._segments.get(path.name)
        if copied is None:
            return PaddedFile(size, self.spare(self._numbers[path.name]))
        return PaddedFile(size, file=super().open(self._target / copied.file, is_writable=False), length=copied.bytes)
