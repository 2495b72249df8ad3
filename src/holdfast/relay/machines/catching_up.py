"""Catching up: when a route that is far behind tells how far it has come. Pure: it is given the time.

waiting upstream    < 10,000 ──▶ nothing is told
                    ≥ 10,000 ──▶ a line at once, then one every 10 s: how many wait, how fast they pass, how long that takes
back below that     ──▶ one line more: it has caught up
"""

from __future__ import annotations

WAITING_MIN = 10_000
EVERY_S = 10.0


class CatchingUp:
    def __init__(self) -> None:
        self._told_s: float | None = None  # None: it is not behind

    def look(self, waiting: int, rate: float, now_s: float) -> str:
        """What to tell now; "" for nothing. `rate` is in events a second."""
        if waiting < WAITING_MIN:
            was_behind, self._told_s = self._told_s is not None, None
            return f"has caught up: {waiting:,} events wait upstream" if was_behind else ""
        if self._told_s is not None and now_s - self._told_s < EVERY_S:
            return ""
        self._told_s = now_s
        left = f", {waiting / rate:,.0f} s left" if rate else ""
        return f"catches up: {waiting:,} events wait upstream, {rate:,.0f} events/s{left}"
