"""How much a client manager knows of the fullness of destinations of a message manager of another process (B12). Pure.

    Watermark 4, 5, 7      told to all, at most once: 6 was lost
    heartbeat: 7 changes   5 are known in a row ──▶ ask for all ──▶ 7 are known

A primary counts the changes that it tells, and its heartbeats say how many there are. So a change that was lost is found with
the next heartbeat. A new primary counts anew.
"""

from __future__ import annotations

# An answer that does not come is asked for again after so many heartbeats.
BEATS_AN_ANSWER = 10


class KnownWatermarks:
    def __init__(self) -> None:
        self._epoch = 0
        self._version = -1  # all changes up to this one are known; -1: nothing is
        self._beats = 0  # since it is behind

    def heard(self, epoch: int, version: int) -> None:
        """One change was told."""
        self._begin(epoch)
        if epoch == self._epoch and version == self._version + 1:
            self._version = version

    def told(self, epoch: int, version: int) -> None:
        """Everything up to this change was told at once."""
        self._begin(epoch)
        if epoch == self._epoch:
            self._version = version

    def must_ask(self, epoch: int, version: int) -> bool:
        """Whether the primary, whose heartbeat tells so many changes, is to be asked for all."""
        self._begin(epoch)
        if epoch < self._epoch or version == self._version:
            self._beats = 0
            return False
        self._beats += 1
        return self._beats % BEATS_AN_ANSWER == 1

    def _begin(self, epoch: int) -> None:
        if epoch > self._epoch:
            self._epoch, self._version, self._beats = epoch, -1, 0
