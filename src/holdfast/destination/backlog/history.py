"""The history of a backlog: how often waiting events were delivered before, and when they may be delivered again (rule 5).

    returns       positions that came back, and how often a program had been handed them: 0 where it never was, as far as known.
                  Such an event comes again out of its order, so it is marked as redelivered, and is not counted (ADR 13)
    in hand       positions that the primary noted before it handed them out, and to whom: counted if it dies before there is
                  a verdict on them (see `crash_care`)
    reasons       why positions came back the last time somebody said it
    not before    when positions that came back may be delivered again, ms since 1970
    marks         from snapshots of former releases, one for every epoch: everything placed up to there was counted once more

A mark is a place (slot and index), not a position: a batch that was held back and placed later lies behind it.
"""

from __future__ import annotations

from bisect import bisect_left

from holdfast.destination.backlog.runs import Run, Runs
from holdfast.destination.effect import Holder
from holdfast.event.position import INDEX_BITS

# An event that came back more often than this is worth a look: it may never be finished.
OFTEN = 20


class History:
    def __init__(self) -> None:
        self.returns: Runs[int] = Runs()
        self.reasons: Runs[str] = Runs()
        self.often = 0  # events that came back more than `OFTEN` times; derived from `returns`
        self.counted = 0  # events that came back and were counted; derived from `returns`
        self.not_before: Runs[int] = Runs()
        self.in_hand: Runs[Holder] = Runs()
        self.marks: list[int] = []

    def give_back(self, first: int, last: int, not_before_ms: int, is_counted: bool, reason: str = "") -> None:
        if is_counted:
            self._count(first, last)
        else:
            self._mark(first, last)
        if reason:
            self.reasons.put(first, last, reason)
        self.in_hand.cut(first, last)
        self.not_before.cut(first, last)
        if not_before_ms:
            self.not_before.put(first, last, not_before_ms)

    def _count(self, first: int, last: int) -> None:
        for low, high, count in self.returns.filled(first, last, 0):
            self._note(high - low + 1, count, -1)
            self.put_returns(low, high, count + 1)

    def _mark(self, first: int, last: int) -> None:
        for low, high, count in self.returns.filled(first, last, -1):
            if count < 0:
                self.returns.put(low, high, 0)

    def put_returns(self, first: int, last: int, count: int) -> None:
        """Say how often these, of which nothing is noted, came back."""
        self.returns.put(first, last, count)
        self._note(last - first + 1, count, 1)

    def _note(self, events: int, count: int, sign: int) -> None:
        """So many more, or fewer, events came back so often."""
        self.counted += sign * events if count else 0
        self.often += sign * events if count > OFTEN else 0

    def begin_epoch(self) -> None:
        """The former primary is gone: the events that it noted as in hand were delivered once more."""
        if self.in_hand:
            for first, last, _ in list(self.in_hand):
                self._count(first, last)
            self.in_hand = Runs()

    def leave(self, holder: Holder) -> None:
        """The holder is gone while its primary lives, which has said what counts."""
        for first, last, of in list(self.in_hand) if self.in_hand else ():
            if of == holder:
                self.in_hand.cut(first, last)

    def delay(self, first: int, last: int, not_before_ms: int) -> None:
        """These wait until then, or longer if that was asked for."""
        for low, high, asked_ms in self.not_before.filled(first, last, 0):
            if asked_ms < not_before_ms:
                self.not_before.put(low, high, not_before_ms)

    def forget(self, spans: list[tuple[int, int]]) -> None:
        for runs in (self.not_before, self.in_hand, self.reasons):
            if runs:
                for first, last in spans:
                    runs.cut(first, last)
        if self.returns:
            for first, last in spans:
                for low, high, count in self.returns.cut(first, last):
                    self._note(high - low + 1, count, -1)

    def marks_from(self, oldest_place: int) -> list[int]:
        """Marks before the oldest place that waits mean nothing any more."""
        return self.marks[bisect_left(self.marks, oldest_place) :]

    def is_empty_for(self, first: int) -> bool:
        return not self.marks and not self.returns.has(first >> INDEX_BITS)

    def marked_until(self, first: int, last: int) -> tuple[int, bool]:
        """How far first .. last are alike in whether they came back, and whether they did."""
        runs = self.returns.over(first, last)
        if not runs:
            return last, False
        low, high, _ = runs[0]
        return (high, True) if low == first else (low - 1, False)

    def deliveries_over(self, first: int, last: int, place: int) -> list[Run[int]]:
        """How often first .. last, which begin at a place, were delivered before, in runs."""
        shift = place - first
        made: list[Run[int]] = []
        for low, high, count in self.returns.filled(first, last, 0):
            while low <= high:
                at = bisect_left(self.marks, low + shift)
                end = min(high, self.marks[at] - shift) if at < len(self.marks) else high
                made.append((low, end, count + len(self.marks) - at))
                low = end + 1
        return made
