"""One alarm for many deadlines: with equal timeouts it is set once and stays, however many sends come and go."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable


class Alarm:
    def __init__(self, loop: asyncio.AbstractEventLoop, rang: Callable[[float], None]) -> None:
        """`rang` is called with the time when the first deadline is over; it says which are next."""
        self._loop = loop
        self._rang = rang
        self._timer: asyncio.TimerHandle | None = None
        self._at = math.inf

    def watch(self, deadline: float) -> None:
        if deadline >= self._at:
            return
        self.cancel()
        self._at = deadline
        self._timer = self._loop.call_at(deadline, self._ring)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._at = None, math.inf

    def _ring(self) -> None:
        self._timer, self._at = None, math.inf
        self._rang(self._loop.time())


def wake(waiting: list[asyncio.Future[None]]) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(None)
    waiting.clear()
