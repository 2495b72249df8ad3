"""Figures: what a node counts for those who watch it. Pure.

    deliveries    by backlog, a handout at a time
    deaths        by code
    refusals      by code
    times         of syncs, of sends, from end to end; once `is_timing`: somebody watches

Counted once a batch, a handout or a sync, never once an event. How many events wait, were accepted or confirmed is not counted
here: destinations know it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from holdfast.bus.message import BacklogKey, DeliveredSlice

# Seconds. A sync of a good disk takes a tenth of a millisecond, a send two syncs' time; what waits may wait for hours.
SYNC_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
SEND_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
END_TO_END_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0)
# Codes of deaths come from recipients too: beyond so many, the rest are counted together.
CODES_MAX = 64
OTHER_CODE = "other"


class Histogram:
    """How many observations fell below each bound, and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # each for itself, not added up; the last is beyond all bounds
        self.sum = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += count
        self.sum += value * count


def added(bounds: Sequence[float], histograms: Iterable[Histogram]) -> Histogram:
    """The sum of histograms of the same bounds."""
    total = Histogram(bounds)
    for each in histograms:
        total.counts = [mine + theirs for mine, theirs in zip(total.counts, each.counts, strict=True)]
        total.sum += each.sum
    return total


class Figures:
    def __init__(self) -> None:
        self.is_timing = False
        self.syncs = Histogram(SYNC_BOUNDS)
        self.sends = Histogram(SEND_BOUNDS)
        self.end_to_end = Histogram(END_TO_END_BOUNDS)
        self.delivered: dict[BacklogKey, int] = {}
        self.redelivered: dict[BacklogKey, int] = {}
        self.deaths: dict[str, int] = {}
        self.refusals: dict[str, int] = {}

    def join(self, others: Figures) -> None:
        """Count deaths, and times from end to end, together with others from now on: copies of message managers come and go."""
        self.is_timing, self.deaths, self.end_to_end = others.is_timing, others.deaths, others.end_to_end

    def handed_out(self, backlog: BacklogKey, slices: Sequence[DeliveredSlice], now_us: int) -> int:
        """Count the events of a handout, and return how many there are."""
        events = again = 0
        for each in slices:
            events += each.events
            if each.deliveries:
                again += each.events
            elif self.is_timing and each.accepted_us and not each.is_returned:
                self.end_to_end.observe(max(0, now_us - each.accepted_us) / 1_000_000, each.events)
        self.delivered[backlog] = self.delivered.get(backlog, 0) + events
        if again:
            self.redelivered[backlog] = self.redelivered.get(backlog, 0) + again
        return events

    def forget(self, backlog: BacklogKey) -> None:
        """The backlog was deleted."""
        self.delivered.pop(backlog, None)
        self.redelivered.pop(backlog, None)

    def died(self, code: str, events: int) -> None:
        known = code if code in self.deaths or len(self.deaths) < CODES_MAX else OTHER_CODE
        self.deaths[known] = self.deaths.get(known, 0) + events

    def refused(self, code: str) -> None:
        """A request, a send or a link was refused with an error of this code."""
        self.refusals[code] = self.refusals.get(code, 0) + 1
