"""What a backlog knows of deliveries before: only as much as matters (rule 5).

    returns       positions that came back, counted: released after somebody had looked at them
    marks         one for every epoch: everything placed up to there may have been delivered once more, to recipients of a
                  primary that is gone
    not before    when positions that came back may be delivered again, ms since 1970

A mark is a place (slot and index), not a position: a batch that was held back and placed later lies behind it, as it should.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from holdfast.destination.runs import Run, Runs
from holdfast.event.position import INDEX_BITS


class History:
    def __init__(self) -> None:
        self.returns: Runs[int] = Runs()
        self.not_before: Runs[int] = Runs()
        self.marks: list[int] = []
        self.delivered_up_to = 0

    def note_delivered(self, up_to: int) -> None:
        self.delivered_up_to = max(self.delivered_up_to, up_to)

    def give_back(self, first: int, last: int, not_before_ms: int, is_counted: bool) -> None:
        if is_counted:
            for low, high, count in self.returns.filled(first, last, 0):
                self.returns.put(low, high, count + 1)
        self.not_before.cut(first, last)
        if not_before_ms:
            self.not_before.put(first, last, not_before_ms)

    def delay(self, first: int, last: int, not_before_ms: int) -> None:
        """These wait until then, or longer where more was asked for."""
        for low, high, asked_ms in self.not_before.filled(first, last, 0):
            if asked_ms < not_before_ms:
                self.not_before.put(low, high, not_before_ms)

    def forget(self, spans: list[tuple[int, int]]) -> None:
        for runs in (self.returns, self.not_before):
            if runs:
                for first, last in spans:
                    runs.cut(first, last)

    def add_mark(self, mark: int, oldest_place: int) -> None:
        """Another epoch. Marks before the oldest place that waits mean nothing any more."""
        self.marks = self.marks_from(oldest_place)
        if mark >= oldest_place:
            insort(self.marks, mark)

    def marks_from(self, oldest_place: int) -> list[int]:
        return self.marks[bisect_left(self.marks, oldest_place) :]

    def is_empty_for(self, first: int) -> bool:
        return not self.marks and not self.returns.has(first >> INDEX_BITS)

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
