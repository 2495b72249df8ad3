"""Quiet hours: nights, week-ends, and the change to summer time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.actions.quiet_hours import QuietHours
from holdfast.errors import BadSetting

BERLIN = ZoneInfo("Europe/Berlin")


def _us(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp() * 1e6)


def _until(spans: list[str], at: str) -> str | None:
    found = QuietHours.of(spans, "Europe/Berlin").until_us(_us(at))
    return None if found is None else datetime.fromtimestamp(found / 1e6, BERLIN).strftime("%Y-%m-%d %H:%M")


@pytest.mark.parametrize(
    ("spans", "at", "until"),
    [
        (["22:00-06:00"], "2026-03-02 21:59", None),
        (["22:00-06:00"], "2026-03-02 22:00", "2026-03-03 06:00"),
        (["22:00-06:00"], "2026-03-03 05:59", "2026-03-03 06:00"),
        (["22:00-06:00"], "2026-03-03 06:00", None),
        (["12:00-13:00"], "2026-03-03 12:30", "2026-03-03 13:00"),
        (["sat-sun"], "2026-03-07 00:00", "2026-03-09 00:00"),
        (["sat-sun", "18:00-08:00"], "2026-03-06 19:00", "2026-03-09 08:00"),
        (["mon-fri 18:00-08:00"], "2026-03-07 07:00", "2026-03-07 08:00"),
        (["mon-fri 18:00-08:00"], "2026-03-07 19:00", None),
        (["fri-mon"], "2026-03-09 12:00", "2026-03-10 00:00"),
        (["00:00-24:00"], "2026-03-03 12:00", "2026-03-19 00:00"),  # always quiet: held for two weeks at most
        (["22:00-06:00"], "2026-03-28 23:00", "2026-03-29 06:00"),  # summer time begins
        (["22:00-06:00"], "2026-10-24 23:00", "2026-10-25 06:00"),  # and ends
    ],
)
def test_a_time_in_quiet_hours_is_held_until_they_end(spans: list[str], at: str, until: str | None) -> None:
    assert _until(spans, at) == until


@given(st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)), st.integers(0, 1439), st.integers(0, 1439))
def test_the_end_is_later_and_no_longer_quiet(moment: datetime, begin: int, end: int) -> None:
    span = f"{begin // 60:02}:{begin % 60:02}-{end // 60:02}:{end % 60:02}"
    quiet = QuietHours.of([span], "UTC")
    at_us = round(moment.replace(tzinfo=UTC).timestamp() * 1e6)

    until_us = quiet.until_us(at_us)

    if begin != end:
        clock = moment.hour * 60 + moment.minute
        assert (until_us is not None) == (begin <= clock < end if begin < end else clock >= begin or clock < end)
        if until_us is not None:
            assert 0 < until_us - at_us <= timedelta(days=1) // timedelta(microseconds=1)
            assert quiet.until_us(until_us) is None


@pytest.mark.parametrize("span", ["", "22-06", "25:00-06:00", "22:60-06:00", "foo-bar", "mon-xyz 18:00-08:00", "22:00"])
def test_a_wrong_span_is_refused_with_how_to_write_it(span: str) -> None:
    with pytest.raises(BadSetting):
        QuietHours.of([span], "UTC")


def test_a_wrong_zone_is_refused() -> None:
    with pytest.raises(BadSetting, match="write it like Europe/Berlin"):
        QuietHours.of(["22:00-06:00"], "Mars/Base")


@pytest.mark.parametrize("span", ["22:00-02:15", "01:30-02:30", "sat 22:00-02:45"])
def test_the_hour_that_comes_twice_is_quiet_both_times(span: str) -> None:
    quiet = QuietHours.of([span], "Europe/Berlin")
    second = datetime(2026, 10, 25, 2, 10, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))
    at_us = round(second.timestamp() * 1e6)

    until_us = quiet.until_us(at_us)

    assert until_us is not None and 0 < until_us - at_us < 3_600_000_000
