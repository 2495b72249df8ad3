"""Cooldown: after an alert, none of the same rule and group for a while.

A pure step from batch to batch: what a batch alerts, and until when each rule and group is quiet after it. The same windows
after the same state give the same alerts, so a batch that Spark runs again after a crash comes to what it came to before.

    quiet after batch 6, windows of batch 7  ─▶  alerts of batch 7, quiet after batch 7

Windows of a rule and group come in the order of their ends, over all batches: they are complete when the watermark passes them.
So what is quiet up to the newest end that was seen can be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from holdfast.spark.pipelines.running.notes import Notes

# Spark keeps what it needs to run the last hundred batches again; so do we.
STATES_KEPT = 100
_DIGITS = 20

Quiet = dict[str, float]


class Alert(NamedTuple):
    """A window in which the measure of a rule was past its threshold."""

    rule: str
    group: tuple[str | None, ...]
    window_start: datetime
    window_end: datetime
    events: int
    value: float

    @property
    def key(self) -> str:
        return msgspec.json.encode([self.rule, *self.group]).decode()


def cooled(
    windows: Iterable[Alert], quiet: Mapping[str, float], cooldown_seconds: Mapping[str, float]
) -> tuple[list[Alert], Quiet]:
    """Choose the windows that are alerts, oldest first; and until when each rule and group is quiet (seconds since 1970)."""
    kept, until, newest = [], dict(quiet), float("-inf")
    for alert in sorted(windows, key=lambda alert: (alert.window_end, alert.window_start, alert.key)):
        end = alert.window_end.timestamp()
        newest = max(newest, end)
        if end >= until.get(alert.key, end):
            kept.append(alert)
            until[alert.key] = end + cooldown_seconds[alert.rule]
    return kept, {key: end for key, end in until.items() if end > newest}


class QuietNotes:
    """The states of a checkpoint, one for each batch that had windows past a threshold."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def before(self, batch: int) -> Quiet:
        """The state that this batch begins with."""
        names = [name for name in self._notes.names() if name < _name(batch)]
        found: Quiet = self._notes.read(names[-1]) if names else {}
        return found

    def keep(self, batch: int, quiet: Quiet) -> None:
        self._notes.write(_name(batch), quiet)
        for old in self._notes.names()[:-STATES_KEPT]:
            self._notes.remove(old)


def _name(batch: int) -> str:
    return str(batch).zfill(_DIGITS)
