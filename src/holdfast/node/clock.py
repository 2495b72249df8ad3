"""The clock a node is handed. Machines never see it; shells ask it for the time and for being called later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970; what is written into commands."""

    def now_us(self) -> int:
        """Microseconds since 1970: when something was accepted."""

    def call_later(self, delay_ms: int, function: Callable[[], None]) -> asyncio.TimerHandle:
        """Call a function once, on the running loop."""


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def now_us(self) -> int:
        return time.time_ns() // 1000

    def call_later(self, delay_ms: int, function: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(max(0, delay_ms) / 1000, function)
