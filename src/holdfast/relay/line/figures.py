"""Figures of a route: what it has done, how fast, how far behind it is, and what holds it back."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

# A rate is that of the last seconds.
RATE_S = 5.0


class Counts(msgspec.Struct):
    """Events, since the route was started."""

    received: int = 0  # they came from upstream, for the first time or again
    appended: int = 0  # they are durable here
    again: int = 0  # they came again, and were here already
    confirmed: int = 0  # upstream has applied the confirm
    rejected: int = 0  # upstream has applied the reject: they died here
    sampled: int = 0  # sampling left them out; they were confirmed
    looped: int = 0  # they came from here, had passed too many relays, or were a relay's own; they were confirmed


class Figures:
    def __init__(self, clock_s: Callable[[], float] = time.monotonic, wall_s: Callable[[], float] = time.time) -> None:
        self.counts = Counts()
        self.held_back = "starting"  # why nothing passes; "" while it does
        self.last_error = ""  # why the route began again the last time
        self.last_error_at_ms = 0  # since 1970; 0: never
        self.waiting_upstream: int | None = None  # events that wait upstream; None: not known
        # Events that wait for their recipients here, and upstream for these.
        self.count_waiting: Callable[[], int] = lambda: 0
        self.marks = 0
        self._clock_s, self._wall_s = clock_s, wall_s
        self._seen: deque[tuple[float, int]] = deque()

    def failed(self, sentence: str) -> None:
        self.held_back = self.last_error = sentence
        self.last_error_at_ms = int(self._wall_s() * 1000)

    def appended(self, events: int) -> None:
        self.counts.appended += events
        self._seen.append((self._clock_s(), events))
        self._forget()

    def _forget(self) -> None:
        while self._seen and self._seen[0][0] < self._clock_s() - RATE_S:
            self._seen.popleft()

    @property
    def rate(self) -> float:
        """Events a second that became durable here, over the last seconds."""
        self._forget()
        return sum(events for _, events in self._seen) / RATE_S

    def described(self) -> dict[str, Any]:
        return {
            "held_back": self.held_back,
            "last_error": self.last_error,
            "last_error_at_ms": self.last_error_at_ms,
            "waiting_upstream": self.waiting_upstream,
            "waiting_here": self.count_waiting(),
            "rate": round(self.rate, 1),
            "marks": self.marks,
            **msgspec.structs.asdict(self.counts),
        }
