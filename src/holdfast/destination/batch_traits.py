"""The traits of a batch: priority, groups, delay and expiry, as its fixed head says. Plain batches share one object.

They are read once, when the batch comes. Nothing past the fixed head is read.

    lane = 2 × priority + whether it has groups          batches of one lane go out in the order in which they were placed
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from holdfast.event.batch import HAS_GROUPS, TIME_MS_MAX
from holdfast.event.event import PRIORITY_DEFAULT, PRIORITY_MAX

_TIMES = struct.Struct("<QQQ")
_FLAGS_AT, _PRIORITY_AT, _TIMES_AT = 1, 8, 16
_NO_DELAY = bytes(8)
LANE_PLAIN = 2 * PRIORITY_DEFAULT
LANES = 2 * (PRIORITY_MAX + 1)


class Traits(NamedTuple):
    priority: int = PRIORITY_DEFAULT
    has_groups: bool = False
    not_before_ms: int = 0
    earliest_expiry_ms: int = 0  # when the first of its events expires; 0: none does
    latest_expiry_ms: int = 0

    @property
    def lane(self) -> int:
        return 2 * self.priority + self.has_groups


PLAIN = Traits()


def traits_of(batch: memoryview) -> Traits:
    """Read the traits of a batch, which is at least as long as its fixed head."""
    flags, priority = batch[_FLAGS_AT], batch[_PRIORITY_AT]
    if not flags and priority == PRIORITY_DEFAULT and batch[_TIMES_AT : _TIMES_AT + 8] == _NO_DELAY:
        return PLAIN
    not_before, earliest, latest = _TIMES.unpack_from(batch, _TIMES_AT)
    not_before, earliest, latest = (min(at_ms, TIME_MS_MAX) for at_ms in (not_before, earliest, latest))
    return Traits(min(priority, PRIORITY_MAX), bool(flags & HAS_GROUPS), not_before, earliest, latest)


def priority_of(lane: int) -> int:
    return lane >> 1


def is_grouped(lane: int) -> bool:
    return bool(lane & 1)
