"""The busy wait: after a receipt, the server polls for the sender's next batch instead of sleeping.

A client that sends one by one waits for each receipt and sends the next batch some 150 µs later. A server that sleeps meanwhile
must be woken, which on a virtual machine takes longer than the work it is woken for. So the loop goes round without sleeping
until the next batch comes, for 300 µs at most (`--vigil-us`), and yields the processor to every other process that wants it.

It waits only where that was worth it the last time: the sender of the latest receipt came back in time. Slow senders cost
nothing; a sender that does not come back costs one wait.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable


class BusyWait:
    """`receipted` begins a wait, `came` ends it. With 0 seconds there is none: an embedded node spares its program's loop."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self._seconds = seconds
        self._clock = clock
        self._sender = ""
        self._since = -math.inf
        self._is_worth_it = False
        self._is_waiting = False

    def receipted(self, sender: str) -> None:
        """A sender has the receipts of all that it sent."""
        if not self._seconds:
            return
        self._sender, self._since = sender, self._clock()
        if self._is_worth_it and not self._is_waiting:
            self._is_waiting = True
            self._wait()

    def came(self, sender: str) -> None:
        """A sender sent something."""
        if self._seconds and sender == self._sender:
            self._is_worth_it = self._clock() - self._since < self._seconds
            self._since = -math.inf

    def _wait(self) -> None:
        if self._clock() - self._since < self._seconds:
            os.sched_yield()
            asyncio.get_running_loop().call_soon(self._wait)
            return
        self._is_waiting = False
        if self._since > -math.inf:  # nobody came
            self._is_worth_it = False
