"""Known keys: new, known or a clash; forgotten by the times of events alone (continuity rule 1)."""

from __future__ import annotations

import sys

import pytest

from holdfast.continuity.machines.known_keys import BUCKETS, Clash, Known, KnownKeys, New

KEPT = 1_600  # µs, so that a bucket is 100 wide
ONE, OTHER = b"1" * 16, b"2" * 16


def test_a_key_is_new_once_and_then_known_with_the_place_of_the_first() -> None:
    keys = KnownKeys(KEPT)

    assert keys.judge("a", ONE, 10, 7) == New()
    assert isinstance(keys.judge("b", ONE, 10, 8), New)
    assert keys.judge("a", ONE, 11, 9) == Known(7, None)
    assert len(keys) == 2


def test_a_key_with_another_digest_is_a_clash_and_changes_nothing() -> None:
    keys = KnownKeys(KEPT)
    keys.judge("a", ONE, 10, 7)

    assert isinstance(keys.judge("a", OTHER, 10, 8), Clash)
    assert keys.judge("a", ONE, 10, 9) == Known(7, None)


def test_the_first_answer_that_was_given_is_kept_with_the_key() -> None:
    keys = KnownKeys(KEPT)
    keys.judge("a", ONE, 10, 7)

    keys.given("a", b"A" * 16)
    keys.given("a", b"B" * 16)
    keys.given("unknown", b"C" * 16)

    assert keys.judge("a", ONE, 10, 8) == Known(7, b"A" * 8)
    assert isinstance(keys.judge("unknown", ONE, 10, 9), New)


@pytest.mark.parametrize("entered", [0, 1, 50, 99])
def test_a_key_is_known_for_its_time_and_at_most_a_bucket_longer(entered: int) -> None:
    for later in range(KEPT - 1, KEPT + 3 * KEPT // BUCKETS):
        keys = KnownKeys(KEPT)
        keys.judge("a", ONE, 1_000 + entered, 1)

        found = keys.judge("a", ONE, 1_000 + entered + later, 2)

        if later < KEPT:
            assert found == Known(1, None)
        elif later > KEPT + KEPT // BUCKETS:
            assert found == New()


def test_a_key_that_was_forgotten_is_new_with_a_new_place() -> None:
    keys = KnownKeys(KEPT)
    keys.judge("a", ONE, 0, 1)

    assert keys.judge("a", OTHER, 10 * KEPT, 2) == New()
    assert keys.judge("a", OTHER, 10 * KEPT, 3) == Known(2, None)
    assert len(keys) == 1


def test_an_event_of_an_earlier_time_does_not_turn_the_clock_back() -> None:
    keys = KnownKeys(KEPT)
    keys.judge("a", ONE, 10_000, 1)
    keys.judge("b", ONE, 5, 2)

    keys.advance(10_000 + KEPT - 1)
    assert (keys.judge("b", ONE, 0, 3), keys.clock_us) == (Known(2, None), 10_000 + KEPT - 1)


def test_a_time_far_ahead_is_one_step() -> None:
    keys = KnownKeys(1)
    keys.judge("a", ONE, 0, 1)

    assert isinstance(keys.judge("a", ONE, 1 << 62, 2), New)
    assert len(keys._buckets) == 1


def test_a_digest_of_another_length_or_no_time_to_keep_is_refused() -> None:
    keys = KnownKeys(KEPT)
    with pytest.raises(ValueError, match="16 bytes, not 5"):
        keys.judge("a", b"short", 0, 1)
    with pytest.raises(ValueError, match="16 bytes, not 0"):
        keys.given("a", b"")
    with pytest.raises(ValueError, match="above 0"):
        KnownKeys(0)
    assert len(keys) == 0


def test_a_given_answer_is_known_by_its_digest_and_any_may_be_given_before() -> None:
    keys = KnownKeys(KEPT)
    keys.judge("a", ONE, 10, 7)
    before = keys.judge("a", ONE, 10, 8)
    keys.given("a", bytes(16))
    after = keys.judge("a", ONE, 10, 9)

    assert isinstance(before, Known)
    assert isinstance(after, Known)
    assert (before.is_given(OTHER), after.is_given(OTHER), after.is_given(bytes(16))) == (True, False, True)


def test_many_keys_fill_several_tables_and_all_stay_known() -> None:
    keys, count = KnownKeys(KEPT), 20_000

    assert all(keys.judge(f"key {number}", ONE, number // 20, number) == New() for number in range(count))

    assert [keys.judge(f"key {number}", ONE, 0, 0) for number in range(count)] == [Known(number, None) for number in range(count)]
    assert sum(isinstance(keys.judge(f"other {number}", ONE, 0, 0), New) for number in range(count)) == count


def test_a_key_costs_at_most_60_bytes_and_less_than_3_of_them_are_always_in_memory() -> None:
    files: list[bytearray] = []

    def allocate(size: int) -> bytearray:
        files.append(bytearray(size))
        return files[-1]

    keys, count = KnownKeys(16_000_000, allocate), 100_000
    for number in range(count):
        keys.judge(f"key {number}", ONE, number * 160, number)

    in_memory = keys.size - sum(map(len, files))
    assert len(keys) == count
    assert keys.size + sys.getsizeof(keys._buckets) < 60 * count
    assert in_memory < 3 * count
