"""The mark of a store: how far places are reserved, how far records are durable, and which calls have begun.

    0      slot 0   512 bytes     u64 number, u64 reserved_up_to, 16 bytes boot id, u64 finished, u64 file, u64 durable, crc-32c
    512    slot 1   512 bytes     written in turn; the valid slot with the larger number counts
    4096   calls    16 KiB        1,024 times u64 place, u64 times: the call of a place has begun, so often

The slots are synced: before a place beyond `reserved_up_to` is called, and before a confirm. `file` and `durable` say up to which
byte of which answer file the records are durable. The calls are not synced. They outlive a kill of the listener, not a loss of
power: as long as the boot id is the same, exactly the calls that had begun and have no record are in doubt; with another one, all
reserved places without a record (continuity rule 2).
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import NamedTuple, Self

import crc32c

from holdfast.continuity.errors import StoreDamaged

SLOT_BYTES = 512
CALLS_AT = 4096
# At most so many places are reserved, called or held at a time.
CALLS = 1024
_SLOT = struct.Struct(">QQ16sQQQ")
_CALL = struct.Struct(">QQ")
FILE_BYTES = CALLS_AT + CALLS * _CALL.size


class Mark(NamedTuple):
    """What a slot says."""

    number: int = 0
    reserved_up_to: int = 0
    boot: bytes = bytes(16)
    finished: int = 0  # every event up to this place has a durable record
    file: int = 0  # the answer file that was written
    durable: int = 0  # and how many of its bytes are durable

    def encode(self) -> bytes:
        body = _SLOT.pack(*self)
        return (body + crc32c.crc32c(body).to_bytes(4, "big")).ljust(SLOT_BYTES, b"\0")


def decode(slot: bytes) -> Mark | None:
    """The mark in a slot; None if it is not whole."""
    body, crc = slot[: _SLOT.size], slot[_SLOT.size : _SLOT.size + 4]
    if len(crc) < 4 or crc32c.crc32c(body) != int.from_bytes(crc, "big"):
        return None
    found = Mark(*_SLOT.unpack(body))
    return found if found.number else None


class MarkFile:
    """The file `mark`, open."""

    def __init__(self, path: Path, file: int, mark: Mark) -> None:
        self.path = path
        self.mark = mark
        self._file = file
        self._map = mmap.mmap(file, FILE_BYTES)

    @classmethod
    def open(cls, path: Path, is_new: bool = False) -> Self:
        """Open it, or make it. StoreDamaged if a store that is not new has none."""
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            slots = [decode(os.pread(file, SLOT_BYTES, at)) for at in (0, SLOT_BYTES)]
            marks = [mark for mark in slots if mark is not None]
            if not marks and not is_new:
                raise StoreDamaged(f"{path} holds no whole mark; rebuild this server", file=str(path), byte=0)
            os.ftruncate(file, FILE_BYTES)
            return cls(path, file, max(marks, default=Mark()))
        except BaseException:
            os.close(file)
            raise

    def write(self, mark: Mark) -> None:
        """Write and sync the mark, into the slot that does not count. The number is given here."""
        mark = mark._replace(number=self.mark.number + 1)
        os.pwrite(self._file, mark.encode(), mark.number % 2 * SLOT_BYTES)
        os.fdatasync(self._file)
        self.mark = mark

    def begin(self, place: int) -> int:
        """The call of a place begins; how often it has begun, with this time."""
        at = CALLS_AT + place % CALLS * _CALL.size
        before, times = _CALL.unpack_from(self._map, at)
        times = times + 1 if before == place else 1
        _CALL.pack_into(self._map, at, place, times)
        return times

    def begun(self) -> dict[int, int]:
        """The places whose calls have begun lately, and how often."""
        return {place: times for place, times in _CALL.iter_unpack(self._map[CALLS_AT:FILE_BYTES]) if times}

    def close(self) -> None:
        self._map.close()
        os.close(self._file)
