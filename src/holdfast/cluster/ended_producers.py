"""Ended producers: when the primary may forget a producer whose session is gone (rule 6 of the cluster). Pure.

    its session ends ── at least ten minutes ── and two snapshots that have the end in them ──▶ Forget

A batch of it may come late: a NATS server that was paused delivers what it was sent before. Until then its sequence and its holes
are kept, so that the batch is placed once. Two snapshots: a copy that begins with the older of those that are kept knows the end,
too. A new primary counts both anew, so that a producer may stay longer, never shorter.

This module reads no clock: the time comes in as milliseconds that only rise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

KEPT_MS = 600_000
SNAPSHOTS = 2


@dataclass
class _Ended:
    at: int  # the entry that ended its session
    since_ms: int
    snapshots: int = 0


class EndedProducers:
    def __init__(self) -> None:
        self._ended: dict[str, _Ended] = {}  # the one that was noted first comes first

    def note(self, ended: Iterable[tuple[str, int]], now_ms: int) -> None:
        """These producers have ended, each by this entry; others are forgotten already, or were opened again."""
        before, self._ended = self._ended, {}
        for producer, at in ended:
            known = before.get(producer)
            self._ended[producer] = known if known is not None and known.at == at else _Ended(at, now_ms)

    def snapshot_saved(self, at: int) -> None:
        """A snapshot of the state as of this entry is safe."""
        for each in self._ended.values():
            each.snapshots += each.at <= at

    def due(self, now_ms: int) -> list[tuple[str, int]]:
        """Those that may be forgotten, with the entry that ended each."""
        return [
            (producer, each.at)
            for producer, each in self._ended.items()
            if each.snapshots >= SNAPSHOTS and now_ms - each.since_ms >= KEPT_MS
        ]
