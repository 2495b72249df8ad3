"""How fresh a place is: since when it is certain to have everything that was written before.

    asked    9:00:00    9:00:01    9:00:02       Holdfast says how much waits: the newest write has this number
    known    120        180        240
    applied             ── 150 ──▶               it has everything from before 9:00:00, and not yet from before 9:00:01

A place that is a second behind all the time is a second older than its last question, and not stale: what it was asked is
remembered until it has come so far. Pure: the time comes in.
"""

from __future__ import annotations

from collections import deque

# A place that has not had everything for so long may be behind, and answers nothing.
FRESH_SECONDS = 3.0
_NEVER = float("-inf")


class Freshness:
    def __init__(self) -> None:
        self._asked: deque[tuple[float, int]] = deque()  # when, and the number of the newest write then
        self._since = _NEVER

    def asked(self, at: float, newest: int) -> None:
        """At this time the newest write had this number, or a lower one. Questions too old to help are forgotten."""
        self._asked.append((at, newest))
        while self._asked[0][0] < at - FRESH_SECONDS:
            self._asked.popleft()

    def is_fresh(self, number: int, now: float) -> bool:
        """Whether a place that has applied this number had everything within FRESH_SECONDS."""
        while self._asked and self._asked[0][1] <= number:
            self._since = self._asked.popleft()[0]
        return now - self._since <= FRESH_SECONDS
