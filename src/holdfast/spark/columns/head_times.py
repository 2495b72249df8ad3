"""Heads without their times: where the eight bytes of a time stand in a head, and what stands around them.

82 a1 74 a5 … a1 6d cf │ 00 06 0a 24 18 1e 40 00 │ a1 63 …
               m       │ time, microseconds      │
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from holdfast.event.batch import Batch
from holdfast.event.event import NOT_READABLE, Head, decode_head, encode_head

_MARKER_US = 0x0102_0304_0506_0708
# The name, and "an unsigned number of eight bytes follows". No text can hold it with the marker behind it, as that would not be
# UTF-8; and nothing but text stands before the time.
_TIME_FOLLOWS = b"\xa1m\xcf"
_NO_TIME = bytes(8)


def around_time(head: Head) -> tuple[bytes, bytes]:
    """The bytes before and after the eight bytes of the time in a head like this one."""
    marked = encode_head(msgspec.structs.replace(head, time_us=_MARKER_US))
    before, _, after = marked.partition(_TIME_FOLLOWS + _MARKER_US.to_bytes(8, "big"))
    return before + _TIME_FOLLOWS, after


def bare_head(head: bytes) -> bytes:
    """A head with zeros in place of what looks like its time; `readable_bare` says whether it was."""
    at = head.find(_TIME_FOLLOWS) + len(_TIME_FOLLOWS)
    return head[:at] + _NO_TIME + head[at + 8 :]


def readable_bare(head: bytes) -> Head | None:
    """A head that has zeros for its time; None for one that was not written as `encode_head` writes it, with the time there."""
    try:
        found = decode_head(head)
    except NOT_READABLE:
        return None
    before, after = around_time(found)
    return found if before + _NO_TIME + after == head else None


class Bare(NamedTuple):
    """Heads with zeros in place of what looks like their times, and those times."""

    heads: list[bytes]
    times: npt.NDArray[np.uint64]


def bare_heads(batches: Sequence[Batch]) -> Bare | None:
    """None where a head has nothing that looks like a time of eight bytes."""
    heads = b"".join([batch.heads for batch in batches])
    ends = np.cumsum(np.frombuffer(b"".join([batch.head_lengths for batch in batches]), "<u4"), dtype=np.int64)
    begins = np.concatenate(([0], ends[:-1]))
    spans = list(zip(begins.tolist(), ends.tolist(), strict=True))
    found = np.array([heads.find(_TIME_FOLLOWS, begin, end) for begin, end in spans], np.int64)
    at = found + len(_TIME_FOLLOWS)
    if (found < 0).any() or (at + 8 > ends).any() or ends[-1] != len(heads):
        return None
    bare = np.frombuffer(bytearray(heads), np.uint8)
    places = at[:, None] + np.arange(8)
    times = bare[places].view(">u8").ravel()
    bare[places] = 0
    rest = bare.tobytes()
    return Bare([rest[begin:end] for begin, end in spans], times)
