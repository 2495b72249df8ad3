"""The clock that a node is given. Machines never see it; shells ask it for the time, and to be called later.

    now       the server's time: what is written into commands, and what `ttl_ms` and `delay_ms` are counted in
    steady    for measuring how long something takes; setting the machine's clock does not move it

The server's time is the machine's, but it never goes back and never stands still: when the machine's clock is set back, the
server's time goes on at half speed until the machine's has caught up. So an event that is delayed by five seconds is late by five
more at the most, and the times along a channel only grow while a node lives.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from holdfast.node.supervision import guarded

# A timer for a moment of the server's time is checked again after this long: the machine's clock may be set forward meanwhile.
TIMER_MS_MAX = 60_000


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970; what is written into commands."""

    def now_us(self) -> int:
        """Microseconds since 1970: when something was accepted."""

    def steady_ms(self) -> int:
        """Milliseconds since an arbitrary moment."""

    def call_later(self, delay_ms: int, function: Callable[[], None]) -> asyncio.TimerHandle:
        """Call a function once, on the running loop. An exception of it is reported (`supervision`), and ends nothing else."""

    def call_at(self, at_ms: int, function: Callable[[], None]) -> asyncio.TimerHandle:
        """Call a function once, when the server's time reaches this, or earlier: after a minute at the latest."""


class SystemClock:
    def __init__(self, machine_ns: Callable[[], int] = time.time_ns, steady_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._machine_ns = machine_ns
        self._steady_ns = steady_ns
        self._now_ns = machine_ns()
        self._told_ns = steady_ns()  # on the steady clock: when that was

    def _ns(self) -> int:
        steady_ns = self._steady_ns()
        self._now_ns = max(self._machine_ns(), self._now_ns + (steady_ns - self._told_ns) // 2)
        self._told_ns = steady_ns
        return self._now_ns

    def now_ms(self) -> int:
        return self._ns() // 1_000_000

    def now_us(self) -> int:
        return self._ns() // 1000

    def steady_ms(self) -> int:
        return self._steady_ns() // 1_000_000

    def call_later(self, delay_ms: int, function: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(max(0, delay_ms) / 1000, guarded(function, "a timer"))

    def call_at(self, at_ms: int, function: Callable[[], None]) -> asyncio.TimerHandle:
        return self.call_later(min(at_ms - self.now_ms(), TIMER_MS_MAX), function)
