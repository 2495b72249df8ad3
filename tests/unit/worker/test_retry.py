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


@given(st.integers(0, 100), st.floats(0, 1), st.floats(0, 1))
def test_jitter_shortens_a_pause_by_at_most_its_share(deliveries: int, jitter: float, chance: float) -> None:
    whole = RetryPolicy.of(None, (1, 60)).pause_s(deliveries)
    policy = RetryPolicy.of(None, (1, 60), jitter)
    assert whole is not None

    pause = policy.pause_s(deliveries, chance)

    assert pause is not None
    assert whole * (1 - jitter) <= pause <= whole
    assert policy.pause_s(deliveries, 0) == whole


@pytest.mark.parametrize("jitter", [-0.1, 1.1, float("nan"), True, "half"])
def test_a_jitter_that_is_no_share_is_refused(jitter: object) -> None:
    with pytest.raises(BadSetting, match=r"from 0 \(none\) to 1"):
        RetryPolicy.of(1, (1, 60), jitter)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("retry_on", "reject_on", "final"),
    [
        (None, None, []),
        (None, ValueError, [ValueError, UnicodeError]),
        (None, (KeyError, ValueError), [KeyError, ValueError, UnicodeError]),
        (OSError, None, [KeyError, ValueError, UnicodeError]),
        ((), None, [OSError, KeyError, ValueError, UnicodeError]),
        ((ValueError, OSError), UnicodeError, [KeyError, UnicodeError]),
        (ValueError, ValueError, [OSError, KeyError, ValueError, UnicodeError]),
    ],
)
def test_the_kinds_of_exceptions_say_after_which_there_is_another_try(
    retry_on: type[Exception] | None, reject_on: type[Exception] | None, final: list[type[Exception]]
) -> None:
    policy = RetryPolicy.of(5, (1, 60), 0, retry_on, reject_on)

    assert [kind for kind in (OSError, KeyError, ValueError, UnicodeError) if policy.is_final(kind())] == final


@pytest.mark.parametrize("kinds", ["ValueError", ValueError(), [ValueError], (ValueError, "x"), (int,)])
def test_what_is_no_kind_of_exception_is_refused(kinds: object) -> None:
    with pytest.raises(BadSetting, match=r"retry_on=.*is not a tuple of kinds of exceptions"):
        RetryPolicy.of(1, (1, 60), 0, kinds)  # type: ignore[arg-type]
    with pytest.raises(BadSetting, match=r"reject_on=.*as in"):
        RetryPolicy.of(1, (1, 60), 0, None, kinds)  # type: ignore[arg-type]
