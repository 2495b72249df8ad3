"""Traits: what a batch's fixed head says of all its events, beside how many there are. Plain batches share one.

Read once, when the batch comes; nothing past the fixed head is looked at.

    lane = 2 × priority + whether it has groups          batches of one lane go out in the order in which they were placed
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from holdfast.event.batch import HAS_GROUPS
from holdfast.event.event import PRIORITY_DEFAULT, PRIORITY_MAX

_TIMES = struct.Struct("<QQQ")
_FLAGS_AT, _PRIORITY_AT, _TIMES_AT = 1, 8, 16
_NO_DELAY = bytes(8)
LANE_PLAIN = 2 * PRIORITY_DEFAULT
LANES = 2 * (PRIORITY_MAX + 1)
# What a clock can show: a producer that is broken may say anything.
_TIME_MS_MAX = (1 << 52) - 1


class Traits(NamedTuple):
    priority: int = PRIORITY_DEFAULT
    has_groups: bool = False
    not_before_ms: int = 0
    earliest_expiry_ms: int = 0  # of its events that expire; 0: none does
    latest_expiry_ms: int = 0

    @property
    def lane(self) -> int:
        return 2 * self.priority + self.has_groups


PLAIN = Traits()


def traits_of(batch: memoryview) -> Traits:
    """Of a batch that is at least as long as its fixed head."""
    flags, priority = batch[_FLAGS_AT], batch[_PRIORITY_AT]
    if not flags and priority == PRIORITY_DEFAULT and batch[_TIMES_AT : _TIMES_AT + 8] == _NO_DELAY:
        return PLAIN
    not_before, earliest, latest = _TIMES.unpack_from(batch, _TIMES_AT)
    not_before, earliest, latest = (min(at_ms, _TIME_MS_MAX) for at_ms in (not_before, earliest, latest))
    return Traits(min(priority, PRIORITY_MAX), bool(flags & HAS_GROUPS), not_before, earliest, latest)


def priority_of(lane: int) -> int:
    return lane >> 1


def is_grouped(lane: int) -> bool:
    return bool(lane & 1)
