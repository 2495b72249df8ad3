"""Duties towards upstream: when an upstream position may be confirmed or rejected, by the mode of the route.

    mode           confirmed upstream when                             rejected upstream when
    receipt        it is durable here                                  never
    end-to-end     everybody who counts has confirmed it here          it is dead here, with that reason
    each           as end-to-end, for one recipient                    the same

Who counts: the durable subscriptions, or the queue, that had it placed. The local server knows them, and tells when the last one
has finished, or that one has given it up.

A verdict is *due* until upstream has settled the position. Upstream may not hold it for us at the moment (a link was lost for
long): then it comes again, marked, and the verdict that is due is given.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from typing import Literal, NamedTuple

from holdfast.relay.machines.marks import Stretch
from holdfast.relay.machines.position_set import PositionSet, Run

# So few stretches are not looked through.
PLACED_SMALL = 64

Mode = Literal["receipt", "end-to-end", "each"]


class Refusal(NamedTuple):
    """Positions to be rejected, and why."""

    first: int
    last: int
    code: str
    reason: str


class Verdicts(NamedTuple):
    """What upstream may be told now."""

    confirm: list[Run]
    reject: list[Refusal]


class Duties:
    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self.waiting_count = 0  # events that wait for their recipients here
        self._confirm = PositionSet()  # due
        self._reject: dict[int, Refusal] = {}  # due, by first position
        self._placed: dict[str, list[tuple[int, int, int]]] = {}  # by target: local first, local last, upstream first
        self._kept: dict[str, int] = {}  # by target: stretches that were left when those that are finished were forgotten last
        self._waiting: dict[str, PositionSet] = {}  # by target: local positions that somebody has not finished

    # --- what happens here -------------------------------------------------------------------------------------------

    def appended(self, stretches: Iterable[Stretch]) -> Verdicts:
        """These are durable here, with their mark."""
        due: list[Run] = []
        for each in stretches:
            if self.mode == "receipt" or not each.target:
                self._confirm.add(each.first, each.last)
                due.append((each.first, each.last))
            else:
                last = each.local + each.last - each.first
                insort(self._placed.setdefault(each.target, []), (each.local, last, each.first))
                self._waiting.setdefault(each.target, PositionSet()).add(each.local, last)
                self.waiting_count += last - each.local + 1
        return Verdicts(due, [])

    def finished(self, target: str, runs: Iterable[Run]) -> Verdicts:
        """Everybody who counts has confirmed these local positions."""
        due = [run for first, last in runs for run in self._upstream(target, first, last)]
        for first, last in due:
            self._confirm.add(first, last)
        return Verdicts(due, [])

    def died(self, target: str, runs: Iterable[Run], code: str, reason: str) -> Verdicts:
        """Nobody waits for these local positions any more, and somebody has given them up."""
        due = [Refusal(*run, code, reason) for first, last in runs for run in self._upstream(target, first, last)]
        self._reject.update({each.first: each for each in due})
        return Verdicts([], due)

    def _upstream(self, target: str, first: int, last: int) -> list[Run]:
        """The upstream positions of local ones that still waited."""
        waiting = self._waiting.get(target)
        if waiting is None:
            return []
        found = waiting.within(first, last)
        waiting.remove(first, last)
        self.waiting_count -= sum(high - low + 1 for low, high in found)
        made = [run for low, high in found for run in self._mapped(target, low, high)]
        self._forget(target)
        return made

    def _mapped(self, target: str, low: int, high: int) -> list[Run]:
        placed, made = self._placed[target], []
        at = bisect_right(placed, (low, 1 << 64, 0)) - 1
        while at < len(placed) and placed[at][0] <= high:
            local_first, local_last, upstream = placed[at]
            begin, end = max(low, local_first), min(high, local_last)
            made.append((upstream + begin - local_first, upstream + end - local_first))
            at += 1
        return made

    def _forget(self, target: str) -> None:
        """Forget placed stretches in which nothing waits, now and then: one that waits for ever must not keep all after it."""
        waiting = self._waiting[target]
        if not waiting:
            del self._waiting[target], self._placed[target]
            self._kept.pop(target, None)
        elif len(self._placed[target]) > 2 * self._kept.get(target, 0) + PLACED_SMALL:
            self._placed[target] = [each for each in self._placed[target] if waiting.within(each[0], each[1])]
            self._kept[target] = len(self._placed[target])

    # --- what upstream says ------------------------------------------------------------------------------------------

    def came_again(self, first: int, last: int) -> Verdicts:
        """Upstream holds these for us again: what is due on them."""
        refused = [self._cut(each, first, last) for each in self._reject.values() if each.first <= last and each.last >= first]
        return Verdicts(self._confirm.within(first, last), refused)

    @staticmethod
    def _cut(refusal: Refusal, first: int, last: int) -> Refusal:
        return refusal._replace(first=max(first, refusal.first), last=min(last, refusal.last))

    def settled(self, first: int, last: int) -> None:
        """Upstream has applied a verdict on these, or says that they are none of ours."""
        self._confirm.remove(first, last)
        for each in [each for each in self._reject.values() if each.first <= last and each.last >= first]:
            del self._reject[each.first]
            rest = (each._replace(last=first - 1), each._replace(first=last + 1))
            self._reject.update({part.first: part for part in rest if part.first <= part.last})

    # --- questions ---------------------------------------------------------------------------------------------------

    @property
    def targets(self) -> list[str]:
        """Local destinations in which something waits that upstream is to hear of."""
        return list(self._waiting)

    def waiting(self, target: str) -> PositionSet:
        return self._waiting.get(target, PositionSet())
