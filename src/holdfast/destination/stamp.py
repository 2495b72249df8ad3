"""The stamp of a command: which process sent it, under which number, and from which number on that process still waits (ADR 25).

    kind + 128 u8 │ head length u16 │ stamp length u8, [start, token, low] │ head, msgpack array │ payload

A command may be appended twice, or long after its sender gave it up. By its stamp it counts once, and not after `low` has passed
it. Batches and parts have none: sequences and numbers of parts do the same for them. The head's length includes the stamp.
"""

from __future__ import annotations

import msgspec

from holdfast.errors import BadName, ProtocolError
from holdfast.event.event import NOT_READABLE

# The bit of a kind that says that a stamp stands before the head.
STAMPED = 0x80
KIND_MASK = 0x7F
# What one byte can say of its length: a start of some 200 letters.
STAMP_BYTES_MAX = 255
_LEAD_BYTES = 3


class Stamp(msgspec.Struct, array_like=True, frozen=True):
    start: str  # of the process that sent it: another one after every start
    token: int  # counts its commands
    low: int = 0  # the least token that it waits for


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Stamp).decode


def encode(stamp: Stamp) -> bytes:
    """The bytes of a stamp, with their length."""
    data = _encode(stamp)
    if len(data) > STAMP_BYTES_MAX:
        raise BadName(f"a stamp has {len(data)} bytes and may have {STAMP_BYTES_MAX}; give the process a shorter start id")
    return bytes((len(data),)) + data


def stamp_of(data: bytes | memoryview) -> Stamp:
    """The stamp of a command that has one; ProtocolError if it cannot be read."""
    try:
        return _decode(data[_LEAD_BYTES + 1 : _LEAD_BYTES + 1 + data[_LEAD_BYTES]])
    except (IndexError, *NOT_READABLE) as problem:
        raise ProtocolError(f"the stamp of a command cannot be read: {problem}; its sender is broken") from problem
