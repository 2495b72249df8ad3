"""Removal limits: how much may wait in a subscription before it is removed, instead of holding producers back.

    events    so many events may wait
    bytes     batches of so many bytes may wait
    age       so long may the oldest event wait

0 means no limit. The primary finds that a limit is passed and says so by a command; the machine checks again when it applies the
command. The events that waited are then gone for this subscription: that is its terms.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.destination.settings import DELAY_MS_MAX, NUMBER_MAX
from holdfast.errors import BadSetting


class Limits(NamedTuple):
    events: int = 0
    bytes: int = 0
    age_ms: int = 0

    @property
    def is_any(self) -> bool:
        return any(self)

    def check(self) -> None:
        """BadSetting for a value that cannot be a limit."""
        for (name, field), most in zip(NAMES.items(), (NUMBER_MAX, NUMBER_MAX, DELAY_MS_MAX), strict=True):
            value = getattr(self, field)
            if type(value) is not int or not 0 <= value <= most:
                raise BadSetting(f"{name} {value!r:.40} is not a limit; give 1 or more, or 0 for none", setting=name)

    def describe(self) -> dict[str, int | float]:
        """The limits as people give them: the age in seconds."""
        return {"remove_after_events": self.events, "remove_after_bytes": self.bytes, "remove_after": self.age_ms / 1000}

    def passed(self, events: int, bytes: int, is_too_old: bool) -> str:
        """Which limit is passed with so much waiting, in a sentence; "" for none."""
        if self.events and events > self.events:
            return f"{events:,} events wait, and {self.events:,} may"
        if self.bytes and bytes > self.bytes:
            return f"{bytes:,} bytes wait, and {self.bytes:,} may"
        if self.age_ms and is_too_old:
            return f"its oldest event has waited for more than {self.age_ms / 1000:g} s"
        return ""


NO_LIMITS = Limits()
# The limits by the names that people give them.
NAMES = {"remove_after_events": "events", "remove_after_bytes": "bytes", "remove_after": "age_ms"}
