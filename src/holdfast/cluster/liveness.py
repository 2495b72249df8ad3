"""Liveness: which nodes are silent, judged by their heartbeats, which come every 100 ms.

A node hears its own heartbeats too, through the bus and in order with those of others. Two things make everyone else look
silent, and must not: this node was stopped, and what came meanwhile is unread; or it is cut off from the bus. In both cases its
own heartbeats do not come back for 0.3 s. Then it suspects nobody, and each silence begins anew when it hears itself again.

Nothing that must be safe depends on this: whoever is suspected wrongly is found alive (`candidate`), and a claim is judged in the
channel.

This module reads no clock: the time comes in as milliseconds that only rise.
"""

from __future__ import annotations

HEARTBEAT_MS = 100
# A primary or a client manager that was not heard for so long is silent: four heartbeats are missing.
SILENCE_MS = 500
# The own heartbeats must come back within this. It is less than a silence, so that a node finds out about itself first.
CUT_OFF_MS = 300
# Nodes that were not heard for so long are forgotten.
FORGOTTEN_MS = 600_000


class Liveness:
    def __init__(self, own: str, now_ms: int) -> None:
        """`own` is the start id of this node, as all others are: a node that starts again is another one."""
        self._own = own
        self._heard_ms = {own: now_ms}

    def heard(self, start: str, now_ms: int) -> None:
        """A heartbeat of this node has come."""
        if start == self._own and self._is_cut_off(now_ms):
            self._heard_ms = dict.fromkeys(self._heard_ms, now_ms)
        self._heard_ms[start] = now_ms

    def expect(self, start: str, now_ms: int) -> None:
        """This node should be heard: its silence begins now, unless it was heard already."""
        self._heard_ms.setdefault(start, now_ms)

    def silent_ms(self, start: str, now_ms: int) -> int:
        """For how long a node has been silent, as far as this node can tell; 0 for one that was never expected."""
        if self._is_cut_off(now_ms):
            return 0
        return now_ms - self._heard_ms.get(start, now_ms)

    def is_silent(self, start: str, now_ms: int) -> bool:
        return self.silent_ms(start, now_ms) >= SILENCE_MS

    def alive(self, now_ms: int) -> list[str]:
        """The nodes that are not silent, in order of their ids, this one too; none while it is cut off."""
        if self._is_cut_off(now_ms):
            return []
        return sorted(start for start, heard_ms in self._heard_ms.items() if now_ms - heard_ms < SILENCE_MS)

    def _is_cut_off(self, now_ms: int) -> bool:
        return now_ms - self._heard_ms[self._own] >= CUT_OFF_MS

    def forget_lost(self, now_ms: int) -> list[str]:
        """Forget the nodes that were silent for very long; their ids."""
        lost = [start for start, heard_ms in self._heard_ms.items() if now_ms - heard_ms >= FORGOTTEN_MS and start != self._own]
        for start in lost:
            del self._heard_ms[start]
        return lost
