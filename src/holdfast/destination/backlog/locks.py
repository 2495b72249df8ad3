"""Locks: the positions of a backlog that a prepared transaction will confirm, or give free again (ADR 25).

They wait like others, and keep their places. Until its Final nobody else finishes, returns or takes them. Few backlogs have any,
and only for a moment.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from holdfast.event.position import Ranges


class Locks:
    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []  # ascending; each as it was locked

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, ranges: Ranges) -> None:
        """Lock these, of which none is locked."""
        for span in ranges:
            insort(self._spans, span)

    def remove(self, ranges: Ranges) -> None:
        """Give these free. They were locked together."""
        for span in ranges:
            del self._spans[bisect_left(self._spans, span)]

    def all(self) -> Ranges:
        return Ranges.gather(self._spans)

    def outside(self, ranges: Ranges) -> Ranges:
        """The positions of these ranges that are not locked."""
        free = Ranges()
        for first, last in ranges:
            at = bisect_left(self._spans, (first,))
            if at and self._spans[at - 1][1] >= first:
                at -= 1
            while at < len(self._spans) and self._spans[at][0] <= last:
                if first < self._spans[at][0]:
                    free.add_last(first, self._spans[at][0] - 1)
                first = self._spans[at][1] + 1
                at += 1
            if first <= last:
                free.add_last(first, last)
        return free

    def inside(self, ranges: Ranges) -> Ranges:
        """The positions of these ranges that are locked."""
        return ranges.without(self.outside(ranges))
