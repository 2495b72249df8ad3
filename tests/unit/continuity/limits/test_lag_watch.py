"""The lag of servers, by what a current listener saw pass."""

from __future__ import annotations

from holdfast.continuity.domain import LagLimit
from holdfast.continuity.limits.lag_watch import SAMPLES_MAX, Lag, LagWatch, beyond


def test_a_server_lags_by_events_bytes_and_the_age_of_the_oldest_it_has_not_finished() -> None:
    watch = LagWatch()
    for place, now, passed in ((100, 10.0, 1_000), (200, 20.0, 2_500), (300, 30.0, 9_000)):
        watch.note(place, now, passed)

    assert watch.lag(150, now=35.0) == Lag(150, 6_500, 15.0)
    assert watch.lag(200, now=35.0) == Lag(100, 0, 5.0)


def test_a_server_that_has_finished_everything_does_not_lag_however_long_nothing_comes() -> None:
    watch = LagWatch()
    watch.note(100, 10.0, 1_000)
    watch.note(100, 99.0, 1_000)

    assert watch.lag(100, now=1_000.0) == Lag(0, 0, 0.0)


def test_bytes_that_are_heard_of_after_their_place_count() -> None:
    watch = LagWatch()
    watch.note(100, 10.0, 1_000)
    watch.note(200, 11.0, 1_000)
    watch.note(200, 12.0, 5_000)

    assert watch.lag(50, now=13.0) == Lag(150, 4_000, 3.0)


def test_samples_are_bounded_and_the_newest_and_the_oldest_stay() -> None:
    watch = LagWatch()
    for place in range(1, 10 * SAMPLES_MAX):
        watch.note(place, float(place), place)

    assert len(watch._samples) <= SAMPLES_MAX
    assert watch.lag(1, now=10.0 * SAMPLES_MAX).events == 10 * SAMPLES_MAX - 2


def test_a_limit_names_what_is_past_it_and_zero_is_no_limit() -> None:
    far = Lag(1_000, 1_000, 1_000.0)

    assert "events" in beyond(far, LagLimit(events=999, bytes=0, seconds=0))
    assert "bytes" in beyond(far, LagLimit(events=0, bytes=999, seconds=0))
    assert "s behind" in beyond(far, LagLimit(events=0, bytes=0, seconds=999))
    assert beyond(far, LagLimit(events=1_000, bytes=1_000, seconds=1_000)) == ""
    assert beyond(far, LagLimit(events=0, bytes=0, seconds=0)) == ""
