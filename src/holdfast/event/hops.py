"""Hops: how often a batch was passed on by relays, and where it began, in the fixed head of the batch.

    hops      u8 at offset 9      0: its producer sent it here
    origin    u32 at offset 12    the tag of the place from which it was passed on first; 0: of none

Nothing is opened to read or write them: a batch is passed on as it is, with a new head and checksum. These bytes were 0 in every
batch before, and nobody read them: a release that does not know them keeps them as they are.
"""

from __future__ import annotations

import zlib

from holdfast.errors import BadEvent, BadName, BatchDamaged
from holdfast.event.batch import FIXED_LENGTH, sealed

HOPS_MAX = 255
_HOPS_AT = 9
_ORIGIN = slice(12, 16)

Bytes = bytes | memoryview


def origin_tag(name: str) -> int:
    """The name of a place as the 32 bits that a batch has room for. Never 0. Two of a hundred names are the same once in a
    million times: check those you use."""
    if not isinstance(name, str) or not name:
        raise BadName(f"the origin of a batch is named by a text, not {name!r:.40}; give the name of a place")
    return zlib.crc32(name.encode()) or 1


def hops_of(data: Bytes) -> int:
    """How often a batch was passed on."""
    return _checked(data)[_HOPS_AT]


def origin_of(data: Bytes) -> int:
    """The tag of the place where a batch began; 0: not known."""
    return int.from_bytes(_checked(data)[_ORIGIN], "little")


def passed_on(data: Bytes, origin: int = 0) -> bytes:
    """The same batch with one hop more; and with this origin, if it has none yet. BadEvent past 255 hops."""
    view = memoryview(_checked(data))
    hops = view[_HOPS_AT] + 1
    if hops > HOPS_MAX:
        raise BadEvent(f"a batch was passed on {HOPS_MAX} times, which only a loop of relays does; give each an end", hops=hops)
    fixed = bytearray(view[:FIXED_LENGTH])
    fixed[_HOPS_AT] = hops
    if not any(fixed[_ORIGIN]):
        fixed[_ORIGIN] = origin.to_bytes(4, "little")
    return sealed(bytes(fixed), view[FIXED_LENGTH:])


def with_hops(data: Bytes, hops: int, origin: int) -> bytes:
    """The same batch with so many hops, and this origin: those of a batch that it was made from."""
    view = memoryview(_checked(data))
    fixed = bytearray(view[:FIXED_LENGTH])
    fixed[_HOPS_AT] = hops
    fixed[_ORIGIN] = origin.to_bytes(4, "little")
    return sealed(bytes(fixed), view[FIXED_LENGTH:])


def _checked(data: Bytes) -> Bytes:
    if len(data) < FIXED_LENGTH:
        raise BatchDamaged(f"a batch of {len(data)} bytes is shorter than its head; it was cut on the way")
    return data
