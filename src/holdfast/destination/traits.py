"""Traits: what a batch's fixed head says of all its events, beside how many there are. Plain batches share one.

Read once, when the batch comes; nothing past the fixed head is looked at.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from holdfast.event.batch import HAS_GROUPS
from holdfast.event.event import PRIORITY_DEFAULT

_TIMES = struct.Struct("<QQQ")
_FLAGS_AT, _PRIORITY_AT, _TIMES_AT = 1, 8, 16
_NO_DELAY = bytes(8)


class Traits(NamedTuple):
    priority: int = PRIORITY_DEFAULT
    has_groups: bool = False
    not_before_ms: int = 0
    earliest_expiry_ms: int = 0  # of its events that expire; 0: none does
    latest_expiry_ms: int = 0


PLAIN = Traits()


def traits_of(batch: memoryview) -> Traits:
    """Of a batch that is at least as long as its fixed head."""
    flags, priority = batch[_FLAGS_AT], batch[_PRIORITY_AT]
    if not flags and priority == PRIORITY_DEFAULT and batch[_TIMES_AT : _TIMES_AT + 8] == _NO_DELAY:
        return PLAIN
    not_before, earliest, latest = _TIMES.unpack_from(batch, _TIMES_AT)
    return Traits(priority, bool(flags & HAS_GROUPS), not_before, earliest, latest)
