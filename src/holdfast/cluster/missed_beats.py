"""Missed heartbeats: how many of each node did not come when they should have. Pure: it is given the time.

    heard ──100 ms── heard ──────── 350 ms ──────── heard      two are missed
                                     ▲ one so far

They are counted as time passes, and so a node that is silent for good is noticed, too, until it is forgotten. A node that starts
again is the same one: what did not come meanwhile was missed.
"""

from __future__ import annotations

from holdfast.cluster.liveness import FORGOTTEN_MS, HEARTBEAT_MS

# A heartbeat is missed when it is later than this: half an interval is ordinary.
LATE_MS = HEARTBEAT_MS // 2


class MissedBeats:
    def __init__(self) -> None:
        self._heard_ms: dict[str, int] = {}
        self._missed: dict[str, int] = {}

    def heard(self, node: str, now_ms: int) -> None:
        if node in self._heard_ms:
            self._missed[node] = self._missed_by(node, now_ms)
        else:
            self._missed[node] = 0
        self._heard_ms[node] = now_ms

    def counts(self, now_ms: int) -> dict[str, int]:
        """By node: how many were missed since it was first heard."""
        for node in [node for node, heard_ms in self._heard_ms.items() if now_ms - heard_ms >= FORGOTTEN_MS]:
            del self._heard_ms[node], self._missed[node]
        return {node: self._missed_by(node, now_ms) for node in self._heard_ms}

    def _missed_by(self, node: str, now_ms: int) -> int:
        """Those that were missed before, and those that should have come since the last one."""
        return self._missed[node] + max(0, (now_ms - self._heard_ms[node] - LATE_MS) // HEARTBEAT_MS)
