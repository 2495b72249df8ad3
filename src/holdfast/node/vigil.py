"""The vigil: a server that has just given a receipt stays awake for a moment, for a sender that comes back at once.

Whoever sends one by one waits for each receipt and then sends the next, some 150 µs later. A server that sleeps meanwhile must be
woken, which on a virtual machine takes longer than what it was woken for. So the loop goes round without sleeping until the next
batch comes, for 300 µs at most (`--vigil-us`), and lets whoever else wants the processor have it.

Only where it was worth it the last time: the sender that had the latest receipt came back that soon. Senders that take their time
cost nothing; one that does not come back costs one vigil.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable


class Vigil:
    """`receipted` begins one, `came` ends it. With 0 seconds there never is one: an embedded node leaves its program's loop
    alone."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self._seconds = seconds
        self._clock = clock
        self._sender = ""
        self._since = -math.inf
        self._is_worth_it = False
        self._is_awake = False

    def receipted(self, sender: str) -> None:
        """A sender was told of all that it had sent."""
        if not self._seconds:
            return
        self._sender, self._since = sender, self._clock()
        if self._is_worth_it and not self._is_awake:
            self._is_awake = True
            self._stay()

    def came(self, sender: str) -> None:
        """A sender sent something."""
        if self._seconds and sender == self._sender:
            self._is_worth_it = self._clock() - self._since < self._seconds
            self._since = -math.inf

    def _stay(self) -> None:
        if self._clock() - self._since < self._seconds:
            os.sched_yield()
            asyncio.get_running_loop().call_soon(self._stay)
            return
        self._is_awake = False
        if self._since > -math.inf:  # nobody came
            self._is_worth_it = False
