"""The bare disk: write and `fdatasync`, into a file that was written before. Nothing durable can be faster here."""

from __future__ import annotations

import os
from pathlib import Path

FILE_BYTES = 64 << 20


class BareDisk:
    name = "bare write + fdatasync"

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "bare", os.O_RDWR | os.O_CREAT, 0o600)
        for start in range(0, FILE_BYTES, 1 << 20):
            os.pwrite(self._file, bytes(1 << 20), start)
        os.fsync(self._file)
        self._at = 0

    def write_and_sync(self, size: int, count: int) -> None:
        block = os.urandom(size)
        for _ in range(count):
            if self._at + size > FILE_BYTES:
                self._at = 0
            os.pwrite(self._file, block, self._at)
            os.fdatasync(self._file)
            self._at += size

    def close(self) -> None:
        os.close(self._file)
