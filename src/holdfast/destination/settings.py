"""The settings of a destination, checked before they get into a channel: unreadable ones would stop every reader.

    redelivery_limit          deliveries after the first before an event is given up
    redelivery_delay_ms       how long a released event waits before it is delivered again; each time `redelivery_factor` times
                              as long
    redelivery_delay_max_ms   the longest such delay
    events_max, bytes_max     high water: producers are held back from there until the backlog falls to `low_percent` of it
    deduplicate_ms            how long an event with the same source and id is a repetition, and is not placed again

0 means no limit, no delay.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.errors import BadSetting

# The largest number that a head can hold: a smaller limit would make journals unreadable that were written before it.
NUMBER_MAX = (1 << 64) - 1
FACTOR_MAX = 100
# A hundred years, as for the delays of events.
DELAY_MS_MAX = 100 * 365 * 86_400 * 1000
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\Z")
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(given: Any, setting: str) -> int:
    """Milliseconds from `10m`, `90s`, `1.5h`, or a number of seconds; BadSetting for anything else."""
    if isinstance(given, str) and (found := _DURATION.match(given.strip())):
        given = float(found[1]) * _UNITS_MS[found[2] or "s"] / 1_000
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < 1e12:
        raise BadSetting(
            f"{setting} {given!r:.40} is not a duration; write it like 10m, 90s, 2h, or a number of seconds, 0 for none",
            setting=setting,
        )
    return round(given * 1_000)


# The defaults of `Settings`, in the order of its fields, and those of a queue that came into being on first use.
_DEFAULTS = (0, 0, 1, 0, 0, 0, 80, 0, 0)
_FIRST_USE = (0, 1_000, 2, 60_000, 0, 0, 80, 0, 1)


class Settings(msgspec.Struct, frozen=True, omit_defaults=True):
    redelivery_limit: int = 0
    redelivery_delay_ms: int = 0
    redelivery_factor: int = 1
    redelivery_delay_max_ms: int = 0
    events_max: int = 0
    bytes_max: int = 0
    low_percent: int = 80
    deduplicate_ms: int = 0
    usual_back_off: int = 0  # 1: the back-off is that of a first use, and nobody chose it

    def __post_init__(self) -> None:
        values = msgspec.structs.astuple(self)
        # A hundred thousand queues are restored with these.
        if (values != _DEFAULTS and values != _FIRST_USE) or {*map(type, values)} != {int}:
            self._check_all()

    def _check_all(self) -> None:
        self._check("redelivery_limit", "a number of deliveries", NUMBER_MAX)
        self._check("redelivery_delay_ms", "a number of milliseconds", DELAY_MS_MAX)
        self._check("redelivery_delay_max_ms", "a number of milliseconds", DELAY_MS_MAX)
        self._check("deduplicate_ms", "a number of milliseconds", DELAY_MS_MAX)
        self._check("events_max", "a number of events", NUMBER_MAX)
        self._check("bytes_max", "a number of bytes", NUMBER_MAX)
        self._check("usual_back_off", "0 or 1", 1)
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
        """The settings as people give them: delays in seconds."""
        return {
            "redelivery_limit": self.redelivery_limit,
            "redelivery_delay": self.redelivery_delay_ms / 1000,
            "redelivery_factor": self.redelivery_factor,
            "redelivery_delay_max": self.redelivery_delay_max_ms / 1000,
            "events_max": self.events_max,
            "bytes_max": self.bytes_max,
            "low_percent": self.low_percent,
            "deduplicate": self.deduplicate_ms / 1000,
        }

    def redelivery_delay_of(self, deliveries: int) -> int:
        """How long, in ms, an event waits after so many deliveries."""
        if not self.redelivery_delay_ms or deliveries < 1:
            return 0
        most = self.redelivery_delay_max_ms or DELAY_MS_MAX
        # 64 doublings are past any delay: a larger number would only cost time.
        longer: int = self.redelivery_delay_ms * self.redelivery_factor ** min(deliveries - 1, 64)
        return min(most, longer)


BACK_OFF = ("redelivery_delay_ms", "redelivery_factor", "redelivery_delay_max_ms")
# An event that is released is delivered again after 1 s, then after twice as long each time, up to a minute: a recipient that
# fails on every event does not go round as fast as it can (ADR 14).
FIRST_USE_QUEUE = Settings(*_FIRST_USE)


def of_first_use(kind: str, settings: Settings | None = None, given: Sequence[str] = ()) -> Settings:
    """The settings of a destination that nobody created: those `given`, and for a queue a back-off, unless part of one is."""
    usual = FIRST_USE_QUEUE if kind == "queue" else Settings()
    return changed(usual, settings or usual, given)


def changed(settings: Settings, by: Settings, names: Sequence[str]) -> Settings:
    """The settings with those of these names taken from others; BadSetting for a name that there is not.

    The back-off of a first use is no choice of anyone: it goes as a whole when a part of it is given."""
    for name in names:
        if name not in NAMES:
            raise BadSetting(f"there is no setting {name!r}; there are: {', '.join(NAMES)}", setting=name)
    if settings.usual_back_off and any(name in BACK_OFF for name in names):
        settings = msgspec.structs.replace(settings, **_NO_BACK_OFF)
    return msgspec.structs.replace(settings, **{name: getattr(by, name) for name in names})


NAMES = Settings.__struct_fields__[:-1]
_NO_BACK_OFF = {"redelivery_delay_ms": 0, "redelivery_factor": 1, "redelivery_delay_max_ms": 0, "usual_back_off": 0}
