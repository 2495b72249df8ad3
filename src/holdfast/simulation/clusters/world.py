"""The world of a simulation: one time, one pair of dice, and the processes that live in it. Nothing in it waits for real.

    what is due next ──▶ time jumps there ──▶ a process has a turn, a packet arrives, a fault begins …
                                                  └▶ may put more things on the list

Things that are due at the same moment happen in the order in which they were put on the list. The dice are drawn only by what
happens in this order, so one seed gives one run.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

from holdfast.simulation.clusters.trace import Trace

S_US = 1_000_000
# The machines' clocks at the beginning: 2026-11-18.
EPOCH_US = 1_795_000_000 * S_US


class World:
    def __init__(self, seed: int) -> None:
        self.now_us = 0
        self.dice = random.Random(seed)
        self.trace = Trace()
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def note(self, who: str, what: str) -> None:
        self.trace.note(self.now_us, who, what)

    def at(self, at_us: int, function: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._due, (at_us, self._count, function))

    def after(self, delay_us: int, function: Callable[[], None]) -> None:
        self.at(self.now_us + delay_us, function)

    def run(self, until: Callable[[], bool], limit_us: int) -> bool:
        """Go on until something is true, and return True; False when nothing more happens, or time is up."""
        due = self._due
        while not until():
            if not due or due[0][0] > limit_us:
                self.now_us = limit_us
                return until()
            at_us, _, function = heapq.heappop(due)
            self.now_us = max(at_us, self.now_us)
            function()
        return True
