"""What can be set for a destination, checked before it gets into a channel: what could not be read back would stop every reader.

    redelivery_limit          deliveries after the first before an event is given up
    redelivery_delay_ms       how long a released event waits before it is delivered again; each time `redelivery_factor` times
    redelivery_delay_max_ms   as long, but never longer than this
    events_max, bytes_max     high water: with so much waiting, producers are held back until it has fallen to `low_percent` of it

0 means no limit, no delay.
"""

from __future__ import annotations

import msgspec

from holdfast.errors import BadSetting

# The largest number that a head can hold: a smaller limit would make journals unreadable that were written before it.
NUMBER_MAX = (1 << 64) - 1
FACTOR_MAX = 100
# A hundred years, as for the delays of events.
DELAY_MS_MAX = 100 * 365 * 86_400 * 1000


class Settings(msgspec.Struct, frozen=True, omit_defaults=True):
    redelivery_limit: int = 0
    redelivery_delay_ms: int = 0
    redelivery_factor: int = 1
    redelivery_delay_max_ms: int = 0
    events_max: int = 0
    bytes_max: int = 0
    low_percent: int = 80

    def __post_init__(self) -> None:
        self._check("redelivery_limit", "a number of deliveries", NUMBER_MAX)
        self._check("redelivery_delay_ms", "a number of milliseconds", DELAY_MS_MAX)
        self._check("redelivery_delay_max_ms", "a number of milliseconds", DELAY_MS_MAX)
        self._check("events_max", "a number of events", NUMBER_MAX)
        self._check("bytes_max", "a number of bytes", NUMBER_MAX)
        if type(self.redelivery_factor) is not int or not 1 <= self.redelivery_factor <= FACTOR_MAX:
            raise BadSetting(
                f"redelivery_factor {self.redelivery_factor!r} is not a whole number from 1 to {FACTOR_MAX}; "
                "2 doubles the delay each time",
                setting="redelivery_factor",
            )
        if type(self.low_percent) is not int or not 1 <= self.low_percent <= 100:
            raise BadSetting(
                f"low_percent {self.low_percent!r} is not a share from 1 to 100 of the high water; 80 is usual",
                setting="low_percent",
            )

    def _check(self, name: str, what: str, most: int) -> None:
        value = getattr(self, name)
        if type(value) is not int or not 0 <= value <= most:
            raise BadSetting(f"{name} {value!r} is not {what}; give 1 or more, or 0 for no limit", setting=name)

    @property
    def has_high_water(self) -> bool:
        return bool(self.events_max or self.bytes_max)

    def describe(self) -> dict[str, int | float]:
        """As people give them: delays in seconds."""
        return {
            "redelivery_limit": self.redelivery_limit,
            "redelivery_delay": self.redelivery_delay_ms / 1000,
            "redelivery_factor": self.redelivery_factor,
            "redelivery_delay_max": self.redelivery_delay_max_ms / 1000,
            "events_max": self.events_max,
            "bytes_max": self.bytes_max,
            "low_percent": self.low_percent,
        }

    def redelivery_delay_of(self, deliveries: int) -> int:
        """How long an event waits that was delivered so often, in ms."""
        if not self.redelivery_delay_ms or deliveries < 1:
            return 0
        most = self.redelivery_delay_max_ms or DELAY_MS_MAX
        # 64 doublings are past any delay: a larger number would only cost time.
        longer: int = self.redelivery_delay_ms * self.redelivery_factor ** min(deliveries - 1, 64)
        return min(most, longer)
