"""The minimum of a batch: it is held back until enough events wait, or until the first of them has waited long enough."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]


class BatchMinimum:
    """`events`: how many make a batch, None for no minimum; `delay_s`: the longest that fewer are held back."""

    def __init__(self, events: int | None, delay_s: float, clock: Clock = time.monotonic) -> None:
        self._events = events
        self._delay_s = delay_s
        self._clock = clock
        self._held_since: float | None = None

    def is_reached(self, events: int) -> bool:
        """Whether so many events that wait are a batch now."""
        if self._events is None or not 0 < events < self._events or self.seconds_left() <= 0:
            self._held_since = None
            return True
        if self._held_since is None:
            self._held_since = self._clock()
        return False

    def seconds_left(self) -> float:
        """How long the events that are held back may still be; the whole delay when none are."""
        return self._delay_s if self._held_since is None else self._held_since + self._delay_s - self._clock()
