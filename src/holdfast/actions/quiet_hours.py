"""Quiet hours: times of the day at which people sleep, in their time zone.

quiet = ["22:00-06:30", "sat-sun"]      each day from ten at night; and all of Saturday and Sunday
quiet = ["mon-fri 18:00-08:00"]         the nights that begin on those days
zone = "Europe/Berlin"
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from holdfast.errors import BadSetting

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SPAN = re.compile(r"(?:(?P<first>[a-z]{3})(?:-(?P<last>[a-z]{3}))?)?\s*(?:(?P<begin>\d{1,2}:\d{2})-(?P<end>\d{1,2}:\d{2}))?\Z")
_DAY_MINUTES = 24 * 60
# Spans that follow each other are one; a week and a day is past all of them.
_STEPS_MAX = 16


class Span(NamedTuple):
    days: frozenset[int]  # on which it begins
    begin: int  # minutes of the day
    minutes: int


class QuietHours(NamedTuple):
    spans: tuple[Span, ...]
    zone: ZoneInfo

    @classmethod
    def of(cls, spans: list[str], zone: str) -> QuietHours:
        try:
            return cls(tuple(map(_span, spans)), ZoneInfo(zone or "UTC"))
        except (ZoneInfoNotFoundError, ValueError, OSError) as problem:
            raise BadSetting(f"there is no time zone {zone!r:.40}; write it like Europe/Berlin", setting="zone") from problem

    def until_us(self, at_us: int) -> int | None:
        """When the quiet hours end in which this time lies; None if it lies in none."""
        moment = datetime.fromtimestamp(at_us / 1e6, self.zone)
        end = moment
        for _ in range(_STEPS_MAX):
            later = max((until for span in self.spans if (until := self._end(span, end)) is not None), default=None)
            if later is None:
                break
            end = later
        if end is moment:
            return None
        until_us = round(end.timestamp()) * 1_000_000
        # The hour that comes twice: the second time it ends an hour later.
        return until_us if until_us > at_us else round(end.replace(fold=1).timestamp()) * 1_000_000

    def _end(self, span: Span, moment: datetime) -> datetime | None:
        """When this span ends, if the moment lies in it. It began today or yesterday."""
        for ago in (0, 1):
            day = moment - timedelta(days=ago)
            if day.weekday() not in span.days:
                continue
            begin = self._at(day, span.begin)
            end = self._at(day, span.begin + span.minutes)
            if begin <= moment < end:
                return end
        return None

    def _at(self, day: datetime, minutes: int) -> datetime:
        """A time on the clock of that day; the change to summer time does not move it."""
        midnight = day.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        date = midnight + timedelta(days=minutes // _DAY_MINUTES)
        return date.replace(hour=minutes % _DAY_MINUTES // 60, minute=minutes % 60)


def _span(text: str) -> Span:
    found = _SPAN.match(text.strip().lower()) if isinstance(text, str) and text.strip() else None
    if found is None:
        raise BadSetting(
            f"{text!r:.40} is no time of the day; write it like 22:00-06:00, sat-sun, or mon-fri 18:00-08:00", setting="quiet"
        )
    days = _days(text, found["first"], found["last"])
    if found["begin"] is None:
        return Span(days, 0, _DAY_MINUTES)
    begin, end = _minutes(text, found["begin"]), _minutes(text, found["end"])
    return Span(days, begin, (end - begin) % _DAY_MINUTES or _DAY_MINUTES)


def _days(text: str, first: str | None, last: str | None) -> frozenset[int]:
    if first is None:
        return frozenset(range(7))
    for name in (first, last or first):
        if name not in _DAYS:
            raise BadSetting(f"{text!r:.40} has no day of the week {name!r}; there are {', '.join(_DAYS)}", setting="quiet")
    begin, end = _DAYS.index(first), _DAYS.index(last or first)
    return frozenset((begin + more) % 7 for more in range((end - begin) % 7 + 1))


def _minutes(text: str, time: str) -> int:
    hours, minutes = map(int, time.split(":"))
    if hours > 24 or minutes > 59 or hours * 60 + minutes > _DAY_MINUTES:
        raise BadSetting(f"{text!r:.40} has no time {time!r}; times go from 00:00 to 24:00", setting="quiet")
    return hours * 60 + minutes
