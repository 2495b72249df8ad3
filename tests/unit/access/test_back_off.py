"""How long failed logins take: longer each time, bounded, forgotten in time (E7)."""

from __future__ import annotations

from holdfast.access.back_off import ADDRESSES_MAX, DELAY_S_MAX, DELAY_S_MIN, FORGOTTEN_AFTER_S, UNDER_WAY_MAX, BackOff


def test_each_failure_in_a_row_takes_longer_up_to_a_limit() -> None:
    back_off = BackOff()

    delays = [back_off.failed("a", number) for number in range(2_000)]

    assert delays[:5] == [1.0, 2.0, 4.0, 8.0, 8.0]
    assert delays[0] == DELAY_S_MIN
    assert set(delays[3:]) == {DELAY_S_MAX}


def test_another_address_begins_anew_and_so_does_the_same_after_a_while() -> None:
    back_off = BackOff()
    back_off.failed("a", 0)
    back_off.failed("a", 1)

    assert back_off.failed("b", 2) == DELAY_S_MIN
    assert back_off.failed("a", 1 + FORGOTTEN_AFTER_S) == 4.0
    assert back_off.failed("a", 2 + 2 * FORGOTTEN_AFTER_S) == DELAY_S_MIN


def test_an_address_has_only_a_few_attempts_under_way() -> None:
    back_off = BackOff()
    for _ in range(UNDER_WAY_MAX):
        assert back_off.may_begin("a")
        back_off.begin("a")

    assert not back_off.may_begin("a")
    assert back_off.may_begin("b")
    back_off.end("a")
    assert back_off.may_begin("a")


def test_any_number_of_addresses_costs_bounded_memory_and_the_newest_are_remembered() -> None:
    back_off = BackOff()

    for number in range(ADDRESSES_MAX + 10):
        back_off.failed(str(number), 0)

    assert len(back_off._failures) == ADDRESSES_MAX
    assert back_off.failed(str(ADDRESSES_MAX + 9), 1) == 2.0
    assert back_off.failed("0", 1) == DELAY_S_MIN


def test_what_has_ended_is_not_remembered() -> None:
    back_off = BackOff()
    back_off.begin("a")

    back_off.end("a")

    assert back_off._under_way == {}
