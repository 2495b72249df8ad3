"""The server's time, as this client knows it: `ttl_ms` and `delay_ms` are counted by the server's clock, not by this machine's.

The server tells its time with its greeting and with heartbeats. When the client hears it, some time has passed, at most as long
as from the question to the answer. So the server's time lies between two bounds, which go on with a steady clock.

    asked ──▶ the server tells its time ──▶ heard
    the server's time now: between what it told, and that + (heard - asked)

If this machine's clock lies between the bounds, it is as good as the server's, and is used. Otherwise the later bound is used, so
that no event is delivered before its delay is over. An older server does not tell its time; then this machine's clock is used.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class ServerTime:
    def __init__(self, machine_ns: Callable[[], int] = time.time_ns, steady_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._machine_ns = machine_ns
        self._steady_ns = steady_ns
        self._asked_ns: int | None = None
        self._took_ms = 0  # from the newest question to its answer
        self._beyond_steady_ms: int | None = None  # the earlier bound less the steady clock

    def ask(self) -> None:
        """Note that the server is now asked a question that it answers with its time."""
        self._asked_ns = self._steady_ns()

    def learn(self, now_ms: int, is_answer: bool = True) -> None:
        """Note the time that the server says; 0: it does not say."""
        if now_ms <= 0:
            return
        heard_ns = self._steady_ns()
        if is_answer and self._asked_ns is not None:
            self._took_ms = -(-(heard_ns - self._asked_ns) // 1_000_000)
        self._beyond_steady_ms = now_ms - heard_ns // 1_000_000

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        machine_ms = self._machine_ns() // 1_000_000
        if self._beyond_steady_ms is None:
            return machine_ms
        earliest_ms = self._steady_ns() // 1_000_000 + self._beyond_steady_ms - 1  # two clocks are rounded down
        latest_ms = earliest_ms + self._took_ms + 2
        return machine_ms if earliest_ms <= machine_ms <= latest_ms else latest_ms
