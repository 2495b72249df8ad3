"""The rules of a route that decide when and whether events pass: a time window, a rate, sampling. Clock and dice are given.

window     "22:00-06:00", "mon-fri 08:00-18:00"; several are joined. Outside of it the route draws nothing
rate       so many events a second. A batch is not cut: what it takes too much is waited for afterwards
sample     so large a part of the events passes; the others are confirmed upstream and counted
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from holdfast.errors import BadSetting
from holdfast.relay.machines.position_set import Run

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_MINUTES = 24 * 60
_WEEK_MINUTES = 7 * _DAY_MINUTES
_WINDOW = re.compile(r"(?:([a-z]{3})(?:-([a-z]{3}))? +)?(\d{1,2}):(\d\d) *- *(\d{1,2}):(\d\d)\Z")
# Tokens of a rate that may be saved up, in seconds of it.
BURST_S = 1.0


class _Span(NamedTuple):
    """Minutes of the week, from the first on and before the end. The end may lie in the next week."""

    begin: int
    end: int


class Window:
    """Times of the week at which a route draws. Without any, always."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = tuple(texts)
        self._spans = [span for text in texts for span in _spans(text)]

    def is_open(self, minute: int) -> bool:
        """Whether it is open in this minute of the week, counted from Monday on."""
        return not self._spans or any(_is_in(span, minute % _WEEK_MINUTES) for span in self._spans)

    def next_change(self, minute: int) -> int | None:
        """In how many minutes it opens or closes next; None if it never does."""
        is_open = self.is_open(minute)
        edges = sorted({(edge - minute) % _WEEK_MINUTES or _WEEK_MINUTES for span in self._spans for edge in span})
        return next((edge for edge in edges if self.is_open(minute + edge) != is_open), None)


def minute_of(weekday: int, hour: int, minute: int) -> int:
    """A minute of the week; Monday is 0."""
    return weekday * _DAY_MINUTES + hour * 60 + minute


def _is_in(span: _Span, minute: int) -> bool:
    return span.begin <= minute < span.end or span.begin <= minute + _WEEK_MINUTES < span.end


def _spans(text: str) -> list[_Span]:
    found = _WINDOW.match(text.strip().lower()) if isinstance(text, str) else None
    if found is None:
        raise BadSetting(
            f"window {text!r:.40} is not a time; write it like '22:00-06:00' or 'mon-fri 08:00-18:00'", setting="window"
        )
    first_day, last_day, *clock = found.groups()
    hours, minutes = (int(clock[0]), int(clock[2])), (int(clock[1]), int(clock[3]))
    if max(minutes) > 59 or hours[0] > 23 or hours[1] * 60 + minutes[1] > _DAY_MINUTES:
        raise BadSetting(f"window {text!r:.40}: a day has the times 00:00 to 24:00", setting="window")
    begin, end = hours[0] * 60 + minutes[0], hours[1] * 60 + minutes[1]
    if begin == end:
        raise BadSetting(f"window {text!r:.40} begins when it ends; write 00:00-24:00 for a whole day", setting="window")
    length = end - begin if end > begin else end - begin + _DAY_MINUTES
    return [_Span(day * _DAY_MINUTES + begin, day * _DAY_MINUTES + begin + length) for day in _days(text, first_day, last_day)]


def _days(text: str, first: str | None, last: str | None) -> list[int]:
    if first is None:
        return list(range(7))
    for each in (first, last or first):
        if each not in DAYS:
            raise BadSetting(f"window {text!r:.40}: {each!r} is no day; there are {', '.join(DAYS)}", setting="window")
    begin, end = DAYS.index(first), DAYS.index(last or first)
    return [day % 7 for day in range(begin, end + 1 if end >= begin else end + 8)]


class Rate:
    """At most so many events a second, over any time longer than `BURST_S`, but for the last batch."""

    def __init__(self, per_s: float, now_s: float) -> None:
        self._per_s = per_s
        self._left = per_s * BURST_S
        self._at_s = now_s

    def wait_s(self, now_s: float) -> float:
        """Seconds until the next events may pass; 0 for at once."""
        self._fill(now_s)
        return 0.0 if self._left > 0 else (1 - self._left) / self._per_s

    def passed(self, count: int, now_s: float) -> None:
        self._fill(now_s)
        self._left -= count

    def _fill(self, now_s: float) -> None:
        self._left = min(self._per_s * BURST_S, self._left + max(0.0, now_s - self._at_s) * self._per_s)
        self._at_s = max(self._at_s, now_s)


Dice = Callable[[int], float]  # a number from 0 up to, but not including, 1, for a position


class Sampling:
    """Which of the events pass. The dice are asked by position, so that an event that comes again fares the same."""

    def __init__(self, part: float, dice: Dice) -> None:
        self._part = part
        self._dice = dice

    def kept(self, first: int, last: int) -> list[Run]:
        """The runs of these positions that pass."""
        if self._part >= 1:
            return [(first, last)]
        runs: list[Run] = []
        for position in range(first, last + 1):
            if self._dice(position) < self._part:
                is_next = bool(runs) and runs[-1][1] == position - 1
                runs[-1:] = [(runs[-1][0], position)] if is_next else [*runs[-1:], (position, position)]
        return runs
