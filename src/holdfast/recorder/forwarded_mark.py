"""The forwarded mark: up to which sequence the events of a recorder are durable elsewhere, and where. One small file, written in
place.

    journal id, 16 bytes │ sequence u64 │ incarnation, 128 bytes │ checksum u32        within one sector: whole or not at all
    journal id, 16 bytes │ sequence u64 │ checksum u32                                 of a release before incarnations

The incarnation is that of the server's channel. If that channel was restored from a backup since, the mark does not count: events
that are still held are offered again, and the server drops those that it has.

The journal frees whole segments. The mark remembers the rest, so that a recorder that is opened again does not send events that
have arrived. It is only a hint: when it is missing, torn or of another journal, events are sent again and dropped by their
sequence (rule 6). So nobody waits for it to be durable.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

import crc32c

INCARNATION_BYTES_MAX = 128
_MARK = struct.Struct(f"<16sQ{INCARNATION_BYTES_MAX}s")
_FORMER = struct.Struct("<16sQ")
_CHECKSUM = struct.Struct("<I")
_LENGTH = _MARK.size + _CHECKSUM.size


class Forwarded(NamedTuple):
    """Events up to `sequence` are durable in the channel with this incarnation; "" when that is not known."""

    sequence: int
    incarnation: str


NOTHING = Forwarded(0, "")


class ForwardedMark:
    def __init__(self, path: Path, journal_id: bytes) -> None:
        self._journal_id = journal_id
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        if os.fstat(self._file).st_size < _LENGTH:
            self._put(os.pread(self._file, _LENGTH, 0).ljust(_LENGTH, b"\0"))  # takes its space before the disk is full

    def read(self) -> Forwarded:
        """Return how far events arrived, and where; NOTHING when nothing is known."""
        data = os.pread(self._file, _LENGTH, 0)
        for layout in (_MARK, _FORMER):
            mark, checksum = data[: layout.size], data[layout.size : layout.size + _CHECKSUM.size]
            if len(mark) == layout.size and _CHECKSUM.pack(crc32c.crc32c(mark)) == checksum:
                journal_id, sequence, *told = layout.unpack(mark)
                incarnation = told[0].rstrip(b"\0").decode() if told else ""
                return Forwarded(sequence, incarnation) if journal_id == self._journal_id else NOTHING
        return NOTHING

    def write(self, forwarded: Forwarded) -> None:
        incarnation = forwarded.incarnation.encode()
        known = incarnation if len(incarnation) <= INCARNATION_BYTES_MAX else b""
        mark = _MARK.pack(self._journal_id, forwarded.sequence, known)
        self._put(mark + _CHECKSUM.pack(crc32c.crc32c(mark)))

    def _put(self, data: bytes) -> None:
        try:
            os.pwrite(self._file, data, 0)
        except OSError:
            pass  # it is only a hint

    def close(self) -> None:
        os.close(self._file)
