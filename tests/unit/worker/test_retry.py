"""Retries: pauses that double up to the longest, and the last try."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import BadSetting
from holdfast.worker.retry import RetryPolicy


def test_pauses_double_from_the_first_to_the_longest() -> None:
    policy = RetryPolicy.of(6, (1, 10))

    assert [policy.pause_s(deliveries) for deliveries in range(7)] == [1, 2, 4, 8, 10, 10, None]


def test_no_retries_means_one_try_and_no_limit_means_for_ever() -> None:
    assert RetryPolicy.of(0, (1, 1)).pause_s(0) is None
    assert RetryPolicy.of(None, (1, 60)).pause_s(10**9) == 60


@given(st.integers(0, 10**6), st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 10**9))
def test_a_pause_is_never_longer_than_the_longest_and_never_shrinks(
    retries: int, one: float, other: float, deliveries: int
) -> None:
    first, longest = sorted((one, other))
    policy = RetryPolicy.of(retries, (first, longest))

    pause, following = policy.pause_s(deliveries), policy.pause_s(deliveries + 1)

    assert (pause is None) == (deliveries >= retries)
    if pause is not None:
        assert 0 <= pause <= longest
        assert following is None or following >= pause


@pytest.mark.parametrize("retries", [-1, 1.5, True, "3"])
def test_a_number_of_retries_that_is_none_is_refused(retries: object) -> None:
    with pytest.raises(BadSetting, match="None for no limit"):
        RetryPolicy.of(retries, (1, 60))  # type: ignore[arg-type]


@pytest.mark.parametrize("backoff", [(2, 1), (-1, 1), 5, (1,), ("a", "b"), (1, float("nan")), (0, 1e12)])
def test_a_back_off_that_is_none_is_refused(backoff: object) -> None:
    with pytest.raises(BadSetting, match=r"as in \(1, 60\)"):
        RetryPolicy.of(1, backoff)  # type: ignore[arg-type]


def test_tries_are_used_up_when_all_of_them_were_begun() -> None:
    once_more, for_ever = RetryPolicy.of(1, (1, 60)), RetryPolicy.of(None, (1, 60))

    assert [once_more.is_used_up(deliveries) for deliveries in range(4)] == [False, False, True, True]
    assert not for_ever.is_used_up(10**6)
