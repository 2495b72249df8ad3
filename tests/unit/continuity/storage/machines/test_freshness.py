"""Since when a place is certain to have everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.continuity.storage.machines.freshness import FRESH_SECONDS, Freshness


def test_a_place_that_has_never_asked_is_not_fresh() -> None:
    assert not Freshness().is_fresh(100, 0.0)


def test_a_place_is_fresh_for_a_while_after_the_question_whose_number_it_has_reached() -> None:
    made = Freshness()
    made.asked(10.0, 5)

    assert not made.is_fresh(4, 10.0)
    assert made.is_fresh(5, 10.0 + FRESH_SECONDS)
    assert not made.is_fresh(5, 10.1 + FRESH_SECONDS)


def test_a_place_that_is_behind_all_the_time_but_not_by_much_stays_fresh() -> None:
    made = Freshness()
    for second in range(60):
        made.asked(float(second), 100 * second)
        if second >= 2:
            assert made.is_fresh(100 * second - 150, float(second))  # a second and a half behind


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 50), st.integers(0, 50)), max_size=60))
def test_a_place_is_fresh_exactly_if_it_has_reached_a_question_that_is_not_too_old(steps: list[tuple[float, int, int]]) -> None:
    made, now, newest, applied = Freshness(), 0.0, 0, 0
    asked: list[tuple[float, int]] = []
    for pause, written, done in steps:
        now, newest = now + pause, newest + written
        asked.append((now, newest))
        made.asked(now, newest)
        applied = min(newest, applied + done)
        assert made.is_fresh(applied, now) == any(at >= now - FRESH_SECONDS and number <= applied for at, number in asked)
