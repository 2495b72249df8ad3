"""A shared turn: all work on many heads together takes half a millisecond of each pass of the loop.

    scanner, browsers, expirer, selectors ──▶ one after the other ──▶ half a millisecond ──▶ everybody else ──▶ ...

Work comes as a generator that stops after each small step (see `event.selector`). However many selectors run at the same time,
nobody else waits longer than for one of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")

# Others have a turn of the loop after so long.
TURN_S = 0.0005


class SharedTurn:
    def __init__(self) -> None:
        self.turns = 0  # how often others had a turn
        self._whose = asyncio.Lock()

    async def take(self, steps: Generator[int, None, Result]) -> Result:
        """Run these steps, some in each turn, and return their result."""
        while True:
            async with self._whose:
                until = time.perf_counter() + TURN_S
                try:
                    next(steps)
                    while time.perf_counter() < until:
                        next(steps)
                except StopIteration as done:
                    result: Result = done.value
                    return result
                self.turns += 1
                await asyncio.sleep(0)
