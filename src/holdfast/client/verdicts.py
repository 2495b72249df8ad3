"""Verdicts on their way: noted one by one, sent together as ranges, kept until they are applied.

    note ─▶ open ranges, one list for each kind of verdict ─▶ Settle in flight ─▶ applied

A range grows while positions follow each other: within a slice by one, across slices only where the server said that they
adjoin and nothing else that was handed over lies between. Verdicts in flight are bounded; meanwhile notes gather into fewer,
longer ranges.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from holdfast.event.position import Ranges

Verdict = Literal["confirm", "release", "reject"]


class Settlement(NamedTuple):
    """One Settle frame's worth of verdicts."""

    verdict: Verdict
    ranges: Ranges
    delay_ms: int = 0
    reason: str = ""
    is_counted: bool = True


class Verdicts:
    def __init__(self) -> None:
        self.noted = 0
        self.highest = 0  # position that was handed over
        self.end = -1  # of the confirmed range that grows; -1 when none does
        self._begin = 0
        self._confirmed: list[tuple[int, int]] = []
        self._others: dict[tuple[Verdict, int, str], list[tuple[int, int]]] = {}
        self._adjoining: dict[int, int] = {}  # first of a slice: last of the slice it adjoins
        self._newest = 0

    def handed(self, first: int, last: int, is_adjoining: bool) -> None:
        """A slice was handed over."""
        if is_adjoining and self._newest == self.highest and self._newest + 1 < first:
            self._adjoining[first] = self._newest
        self._newest = last
        if last > self.highest:
            self.highest = last

    def confirm(self, position: int) -> None:
        end = self.end
        if position != end + 1 and self._adjoining.pop(position, None) != end:
            self._close_range()
            self._begin = position
        self.end = position
        self.noted += 1

    def confirm_range(self, first: int, last: int) -> None:
        """All of these, which were handed over."""
        self.confirm(first)
        self.end = last
        self.noted += last - first

    def _close_range(self) -> None:
        if self.end >= 0:
            self._confirmed.append((self._begin, self.end))
            self.end = -1

    def note(self, verdict: Verdict, position: int, delay_ms: int, reason: str) -> None:
        self._adjoining.pop(position, None)
        self._others.setdefault((verdict, delay_ms, reason), []).append((position, position))
        self.noted += 1

    def take(self) -> list[Settlement]:
        """What is noted, to be sent now."""
        self._close_range()
        made = []
        if self._confirmed:
            made.append(Settlement("confirm", Ranges.gather(self._confirmed)))
        for (verdict, delay_ms, reason), positions in self._others.items():
            made.append(Settlement(verdict, Ranges.gather(positions), delay_ms, reason))
        self._confirmed = []
        self._others = {}
        self.noted = 0
        return made

    def forget(self) -> None:
        """Nothing that was handed over counts any more."""
        self.take()
        self._adjoining.clear()
        self.highest = self._newest = 0
