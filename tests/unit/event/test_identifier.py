"""Identifiers: unique, sorted, never reused, whatever the clock does (B14)."""

from __future__ import annotations

import pytest

from holdfast.errors import BadSetting
from holdfast.event.identifier import (
    COUNTER_MAX,
    NODE_MAX,
    RESERVE_MS,
    SITE_MAX,
    START_MAX,
    TEXT_LENGTH,
    Counter,
    Parts,
    Starts,
    compose,
    from_text,
    take_apart,
    to_text,
)


def test_an_identifier_is_made_of_start_site_node_and_counter() -> None:
    parts = Parts(start_ms=1_772_366_400_000, site=3, node=70_000, counter=9)

    identifier = compose(parts)

    assert identifier >> 128 == 0
    assert take_apart(identifier) == parts


def test_the_largest_identifier_fits_128_bits_and_its_text() -> None:
    largest = compose(Parts(START_MAX, SITE_MAX, NODE_MAX, COUNTER_MAX))

    assert largest == (1 << 128) - 1
    assert len(to_text(largest)) == TEXT_LENGTH
    assert from_text(to_text(largest)) == largest


@pytest.mark.parametrize("text", ["", "0" * 25, "0" * 27, "I" + "0" * 25, "0" * 25 + "u", "8" + "0" * 25, "Z" * 26, "é" * 26])
def test_a_text_that_is_no_identifier_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="identifier"):
        from_text(text)


def test_b14_starts_grow_although_the_clock_is_set_back() -> None:
    starts = Starts(site=1, node=1)

    taken = [starts.take(now_ms) for now_ms in (5_000, 5_000, 3_000, 0, 4_999, 5_002, 9_000)]

    assert taken == [5_000, 5_001, 5_002, 5_003, 5_004, 5_005, 9_000]


def test_b14_after_opening_again_with_a_clock_set_back_no_start_is_used_twice() -> None:
    before = Starts(site=1, node=1)
    used = [before.take(100_000 + turn * 50_000) for turn in range(5)]

    after = Starts(site=1, node=1, limit=before.limit)

    assert after.take(0) > max(used)


def test_b14_every_start_is_below_the_limit_that_must_be_durable_before_it_is_used() -> None:
    starts = Starts(site=1, node=1)

    for now_ms in (10, 11, 12, 70_000, 20):
        start = starts.take(now_ms)

        assert start < starts.limit


def test_the_limit_moves_once_a_minute_and_not_for_each_start() -> None:
    starts = Starts(site=1, node=1)
    starts.take(1_000)
    limit = starts.limit

    for now_ms in range(1_001, 1_000 + RESERVE_MS):
        starts.take(now_ms)

    assert starts.limit == limit
    starts.take(1_001 + RESERVE_MS)
    assert starts.limit > limit


def test_b14_two_nodes_with_the_same_start_never_make_the_same_identifier() -> None:
    one, other = Starts(site=1, node=1), Starts(site=1, node=2)

    mine = Counter.of(one, one.take(5_000)).take(1_000)
    theirs = Counter.of(other, other.take(5_000)).take(1_000)

    assert not set(range(mine, mine + 1_000)) & set(range(theirs, theirs + 1_000))


def test_b14_a_counter_that_is_used_up_says_so_and_a_new_start_goes_on_above_it() -> None:
    starts = Starts(site=SITE_MAX, node=NODE_MAX)
    counter = Counter.of(starts, starts.take(5_000))
    counter.take(COUNTER_MAX - 2)
    assert counter.left == 3
    last = counter.take(3) + 2

    with pytest.raises(OverflowError, match="new start"):
        counter.take()

    assert take_apart(last) == Parts(5_000, SITE_MAX, NODE_MAX, COUNTER_MAX)
    following = Counter.of(starts, starts.take(5_000)).take()
    assert following > last
    assert take_apart(following) == Parts(5_001, SITE_MAX, NODE_MAX, 0)


def test_a_refused_take_takes_nothing() -> None:
    counter = Counter(COUNTER_MAX - 1)

    with pytest.raises(OverflowError):
        counter.take(3)

    assert counter.left == 2
    assert counter.take(2) == COUNTER_MAX - 1


@pytest.mark.parametrize(("site", "node"), [(-1, 0), (SITE_MAX + 1, 0), (0, -1), (0, NODE_MAX + 1)])
def test_a_site_or_node_that_does_not_fit_is_refused(site: int, node: int) -> None:
    with pytest.raises(BadSetting):
        Starts(site, node)


def test_a_clock_later_than_identifiers_can_hold_is_refused() -> None:
    with pytest.raises(BadSetting, match="clock"):
        Starts(site=1, node=1).take(START_MAX + 1)
