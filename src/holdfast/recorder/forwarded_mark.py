"""The forwarded mark: up to which sequence the events of a recorder are durable elsewhere. One small file, written in place.

    journal id, 16 bytes │ sequence u64 │ checksum u32        within one sector, so that it is written whole or not at all

The journal frees whole segments. The mark remembers the rest, so that a recorder that is opened again does not send events that
have arrived. It is only a hint: when it is missing, torn or of another journal, events are sent again and dropped by their
sequence (rule 6). So nobody waits for it to be durable.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import crc32c

_MARK = struct.Struct("<16sQ")
_CHECKSUM = struct.Struct("<I")
_LENGTH = _MARK.size + _CHECKSUM.size


class ForwardedMark:
    def __init__(self, path: Path, journal_id: bytes) -> None:
        self._journal_id = journal_id
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        if os.fstat(self._file).st_size < _LENGTH:
            self._put(bytes(_LENGTH))  # takes its space before the disk is full

    def read(self) -> int:
        """Return the sequence up to which events arrived; 0 when nothing is known."""
        data = os.pread(self._file, _LENGTH, 0)
        mark, checksum = data[: _MARK.size], data[_MARK.size :]
        if len(data) < _LENGTH or _CHECKSUM.pack(crc32c.crc32c(mark)) != checksum:
            return 0
        journal_id, sequence = _MARK.unpack(mark)
        return sequence if journal_id == self._journal_id else 0

    def write(self, sequence: int) -> None:
        mark = _MARK.pack(self._journal_id, sequence)
        self._put(mark + _CHECKSUM.pack(crc32c.crc32c(mark)))

    def _put(self, data: bytes) -> None:
        try:
            os.pwrite(self._file, data, 0)
        except OSError:
            pass  # it is only a hint

    def close(self) -> None:
        os.close(self._file)
