"""The doubt watch: a primary announces transactions over several message managers that nobody ends (ADR 25, rule 2).

    in doubt ── DOUBT_MS ──▶ announced to all client managers, again and again ──▶ one of them ends it

Whoever drives a transaction ends it long before; what is in doubt for longer has lost its client manager, or waits for another
message manager. A message manager never ends one by itself: it does not know what the others have said. Time is measured here,
from the moment when this primary saw it first, and never in a machine (rule 13).
"""

from __future__ import annotations

import asyncio
from itertools import islice

from holdfast.bus.bus import CLIENT_MANAGERS, Bus
from holdfast.bus.message import TransactionsInDoubt
from holdfast.destination.directory import Directory
from holdfast.node.clock import Clock

# Its client manager gives up after 2.5 s by itself; with the decision and the finals, locks are free within 5 s.
DOUBT_MS = 3_000
CHECK_MS = 500
# Announced at a time, the oldest: the others follow when these are ended.
ANNOUNCED_MAX = 256

Name = tuple[str, str]  # session, assembly


class DoubtWatch:
    def __init__(self, name: str, directory: Directory, bus: Bus, clock: Clock) -> None:
        self._name = name
        self._directory = directory
        self._bus = bus
        self._clock = clock
        self._seen: dict[Name, int] = {}  # since when, in ms
        self._announced: list[Name] = []  # the last time
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Check twice a second from now on, while there are transactions in doubt; at once, when one that was announced is ended:
        others are about to end it, too."""
        is_new = self._timer is None and bool(self._directory.transactions.open)
        if is_new or (self._announced and not all(each in self._directory.transactions.open for each in self._announced)):
            self._check()

    def _check(self) -> None:
        self.stop()
        now, seen = self._clock.steady_ms(), self._seen
        self._seen = {key: seen.get(key, now) for key in self._directory.transactions.open}
        doubtful = (each for each in self._directory.transactions.in_doubt() if self._is_old((each.session, each.assembly), now))
        old, before = list(islice(doubtful, ANNOUNCED_MAX)), self._announced
        self._announced = [(each.session, each.assembly) for each in old]
        if old or before:  # the last time it says that there is none any more
            told = [(list(each.participants), list(each.keys)) for each in old]
            self._bus.publish(CLIENT_MANAGERS, TransactionsInDoubt(self._name, told))
        if self._seen:
            self._timer = self._clock.call_later(CHECK_MS, self._check)

    def _is_old(self, key: Name, now: int) -> bool:
        return now - self._seen[key] >= DOUBT_MS

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
