"""Doubt: events that may have been on their way to somebody who never got them. They come again out of their order, and marked.

    lost on its way     a receiver attaches again, and does not hold what it was sent: others may have had later events since
    after a takeover    what the former primary had sent is not known. Whatever lies before an event that is finished, or that a
                        receiver holds, may have been sent to another; where a receiver does not come back, all from before may

Only the primary knows this, and as long as it leads: a mark says "perhaps", and nothing is counted (ADR 13). Memory: one run for
each that was lost on its way, until it is finished.
"""

from __future__ import annotations

from holdfast.destination.backlog.runs import Runs


class Doubt:
    def __init__(self) -> None:
        self._lost: Runs[bool] = Runs()
        self._until = 0

    def add(self, first: int, last: int) -> None:
        """These were sent to somebody, who does not hold them."""
        self._lost.put(first, last, True)

    def raise_until(self, position: int) -> None:
        """Everything up to this position may have been sent by a former primary."""
        self._until = max(self._until, position)

    def forget(self, first: int, last: int) -> None:
        """These are finished."""
        if self._lost:
            self._lost.cut(first, last)

    def marked_until(self, first: int, last: int) -> tuple[int, bool]:
        """How far first .. last are alike in whether they are in doubt, and whether they are."""
        if first <= self._until:
            return min(last, self._until), True
        runs = self._lost.over(first, last) if self._lost else ()
        if not runs:
            return last, False
        low, high, _ = runs[0]
        return (min(high, last), True) if low <= first else (low - 1, False)
