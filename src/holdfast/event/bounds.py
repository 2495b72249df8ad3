"""Bounds of what is looked at: a range of positions, and a range of the time at which events were accepted."""

from __future__ import annotations

from typing import NamedTuple

END = 1 << 62


class Bounds(NamedTuple):
    """From the first one on, before the second one. Times are in microseconds since 1970; events of which it is not known when
    they were accepted lie in no range of time."""

    start_position: int = 0
    end_position: int = END
    start_us: int = 0
    end_us: int = END

    def clip(self, first: int, events: int) -> tuple[int, int]:
        """Of positions that follow each other, the first one within, and how many; none or less when all are outside."""
        begin = max(first, self.start_position)
        return begin, min(first + events, self.end_position) - begin

    def has_time(self, accepted_us: int) -> bool:
        return self.start_us <= accepted_us < self.end_us


EVERYTHING = Bounds()
