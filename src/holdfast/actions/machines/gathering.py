"""Gathering: from the moments at which a condition holds to alerts, so that 300 full disks are one mail.

    fired ─▶ still cooling down? counted as suppressed
          ─▶ gathered for a while ─▶ quiet hours? held until they end, or dropped and counted ─▶ alert ─▶ cooling down

One `Gathered` for each value of the property by which a rule gathers. It is a list in the state, so that a crash changes nothing:

    [since_us, until_us, cooled_us, count, suppressed, hops, position, keys, reason, examples]

`since_us` is 0 while nothing is gathered. At `until_us` the alert is due. Until `cooled_us` nothing more is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

# Keys that an alert lists, and how large they may be as JSON, so that it fits an event; it counts all.
KEYS_MAX = 1_000
KEYS_BYTES_MAX = 128 << 10

_encode = msgspec.json.Encoder().encode

# (time) -> when the quiet hours end in which it lies; None if it lies in none.
QuietUntil = Callable[[int], int | None]


class Gathered(msgspec.Struct, array_like=True):
    since_us: int = 0
    until_us: int = 0
    cooled_us: int = 0
    count: int = 0
    suppressed: int = 0
    hops: int = 0
    position: int = 0
    keys: list[str] = []
    reason: str = ""
    examples: list[dict[str, Any]] = []


class Due(msgspec.Struct, frozen=True):
    """An alert of one group. `cause` is the position of the event that began it, 0 for time."""

    at_us: int
    cause: int
    keys: list[str]
    count: int
    suppressed: int
    hops: int
    reason: str
    examples: list[dict[str, Any]]


class Gathering(NamedTuple):
    gather_us: int = 0
    cooldown_us: int = 0
    is_held: bool = True  # what comes in quiet hours; otherwise it is dropped and counted
    examples_max: int = 3
    quiet_until: QuietUntil | None = None

    @property
    def is_timed(self) -> bool:
        """Whether time alone can make an alert due."""
        return self.gather_us > 0 or (self.quiet_until is not None and self.is_held)

    @property
    def keeps_state(self) -> bool:
        return self.is_timed or self.cooldown_us > 0 or self.quiet_until is not None

    def add(
        self,
        found: Gathered,
        at_us: int,
        key: str,
        count: int,
        reason: str,
        example: dict[str, Any] | None,
        hops: int,
        cause: int,
    ) -> None:
        """The condition held for a key."""
        if at_us < found.cooled_us:
            found.suppressed += 1
            return
        if not found.since_us:
            found.since_us, found.until_us, found.position = at_us, at_us + self.gather_us, cause
        found.count += max(count, 1)
        found.hops = max(found.hops, hops)
        found.reason = reason
        if key and key not in found.keys and _fits(found.keys, key):
            found.keys = [*found.keys, key]
        if example is not None:
            found.examples = [*found.examples, example][-self.examples_max :]

    def due(self, found: Gathered) -> Due | None:
        """What is gathered is due at `until_us`: the alert, or None where it is held longer, or dropped."""
        at_us = found.until_us
        quiet_us = self.quiet_until(at_us) if self.quiet_until is not None else None
        if quiet_us is not None and self.is_held:
            found.until_us = quiet_us
            return None
        if quiet_us is not None:
            found.suppressed += found.count
            _empty(found)
            return None
        made = Due(
            at_us, found.position, found.keys, found.count, found.suppressed, found.hops, found.reason, found.examples
        )  # fmt: skip
        found.suppressed = 0
        # Without a cooldown nothing is suppressed, nor an older event that others of a higher priority have overtaken.
        found.cooled_us = at_us + self.cooldown_us if self.cooldown_us else 0
        _empty(found)
        return made


def _fits(keys: list[str], key: str) -> bool:
    return len(keys) < KEYS_MAX and len(_encode((*keys, key))) <= KEYS_BYTES_MAX


def _empty(found: Gathered) -> None:
    found.since_us = found.until_us = found.count = found.hops = found.position = 0
    found.keys, found.reason, found.examples = [], "", []


def is_idle(found: Gathered, now_us: int) -> bool:
    """Whether nothing would be lost by forgetting it."""
    return not found.since_us and not found.suppressed and found.cooled_us <= now_us
