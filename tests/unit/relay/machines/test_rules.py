"""When and whether events pass: windows, rates, sampling, with clock and dice given."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import BadSetting
from holdfast.relay.machines.rules import DAYS, Rate, Sampling, Window

MINUTES = st.integers(0, 7 * 1440 - 1)
CLOCKS = st.tuples(st.integers(0, 23), st.integers(0, 59))


def naive_is_open(text: str, now: int) -> bool:
    """Look whether a window began today or yesterday and has not ended."""
    days, _, clock = text.rpartition(" ")
    begin, end = ((int(part[:2]) * 60 + int(part[3:])) for part in clock.split("-"))
    allowed = set(range(7))
    if days:
        first, last = (DAYS.index(day) for day in (days.split("-") * 2)[:2])
        allowed = {(first + step) % 7 for step in range((last - first) % 7 + 1)}
    day, minute = divmod(now, 1440)
    if end > begin:
        return day in allowed and begin <= minute < end
    return (day in allowed and minute >= begin) or ((day - 1) % 7 in allowed and minute < end)


@given(CLOCKS, CLOCKS, st.sampled_from(["", "mon-fri ", "sat ", "fri-mon "]), MINUTES)
def test_a_window_is_open_when_the_clock_says_so(begin: tuple[int, int], end: tuple[int, int], days: str, now: int) -> None:
    text = f"{days}{begin[0]:02}:{begin[1]:02}-{end[0]:02}:{end[1]:02}"
    if begin == end:
        with pytest.raises(BadSetting, match="begins when it ends"):
            Window([text])
        return

    window = Window([text])

    assert window.is_open(now) == naive_is_open(text, now)
    change = window.next_change(now)
    if change is not None:
        assert change > 0
        assert window.is_open(now + change) != window.is_open(now)
        assert all(window.is_open(now + minutes) == window.is_open(now) for minutes in range(change))


def test_without_a_window_a_route_always_draws() -> None:
    assert Window([]).is_open(0)
    assert Window([]).next_change(0) is None


@pytest.mark.parametrize("text", ["", "8-18", "25:00-26:00", "08:00-24:01", "moo 08:00-09:00", "08:60-09:00"])
def test_a_window_that_is_no_time_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(BadSetting):
        Window([text])


@given(st.floats(0.5, 1000), st.integers(0, 10_000))
def test_a_rate_is_kept_over_any_time(per_s: float, seed: int) -> None:
    dice, now = random.Random(seed), 100.0
    rate = Rate(per_s, now)
    passed: list[tuple[float, int]] = []

    for _ in range(60):
        now += dice.random() * 0.3
        now += rate.wait_s(now)
        count = dice.randrange(1, 20)
        passed.append((now, count))
        rate.passed(count, now)

    for first in range(len(passed)):
        for last in range(first, len(passed)):
            between = sum(count for _, count in passed[first:last])
            assert between <= per_s * (passed[last][0] - passed[first][0] + 1) + 1 + 1e-6


@given(st.floats(0.5, 1000))
def test_a_rate_does_not_wait_longer_than_it_must(per_s: float) -> None:
    rate = Rate(per_s, 0.0)
    rate.passed(100, 0.0)

    assert rate.wait_s(0.0) <= 101 / per_s + 1e-6


@given(st.integers(1, 1000), st.integers(0, 50), st.floats(0, 1))
def test_sampling_passes_the_events_that_the_dice_say(first: int, more: int, part: float) -> None:
    def dice(position: int) -> float:
        return random.Random(position).random()

    kept = Sampling(part, dice).kept(first, first + more)

    expected = [position for position in range(first, first + more + 1) if part >= 1 or dice(position) < part]
    assert [position for low, high in kept for position in range(low, high + 1)] == expected
    assert all(before[1] + 1 < after[0] for before, after in itertools.pairwise(kept))
