"""Order: what may run beside what, what waits for what, and how far everything is finished (continuity rule 11)."""

from __future__ import annotations

import pytest

from holdfast.continuity.machines.order import Order


def _order(*keys: tuple[str, ...] | None, window: int = 100) -> Order:
    order = Order("key", window)
    for place, each in enumerate(keys, 1):
        order.admit(place, each)
    return order


def test_requests_on_different_keys_are_called_side_by_side_and_those_on_one_key_one_after_the_other() -> None:
    order = _order(("a",), ("b",), ("a",))

    assert order.take() == [1, 2]
    assert order.take() == []
    order.finish(1)
    assert order.take() == [3]


def test_a_request_with_several_keys_waits_for_all_and_all_wait_for_it() -> None:
    order = _order(("a",), ("b",), ("a", "b"), ("b",), ("c",))

    assert order.take() == [1, 2, 5]
    order.finish(1)
    assert order.take() == []
    order.finish(2)
    assert order.take() == [3]
    order.finish(3)
    assert order.take() == [4]


def test_a_barrier_waits_for_everything_before_it_and_everything_after_it_waits() -> None:
    order = _order(("a",), ("b",), None, ("c",), None, None, ("a",))

    assert order.take() == [1, 2]
    order.finish(2)
    assert order.take() == []
    for place, then in ((1, [3]), (3, [4]), (4, [5]), (5, [6]), (6, [7])):
        order.finish(place)
        assert order.take() == then


def test_a_key_named_twice_by_a_request_counts_once() -> None:
    order = _order(("a", "a"), ("a", "b", "a"))

    assert order.take() == [1]
    order.finish(1)
    assert order.take() == [2]


def test_by_domain_one_request_is_called_at_a_time_whatever_its_keys() -> None:
    order = Order("domain", 100)
    for place in range(1, 5):
        order.admit(place, (f"key {place}",))

    for place in range(1, 5):
        assert order.take() == [place]
        assert order.take() == []
        order.finish(place)


def test_the_finished_prefix_ends_before_the_oldest_unfinished_place() -> None:
    order = _order(("a",), ("b",), ("c",), ("d",))
    order.take()

    finished = []
    for place in (2, 3, 1, 4):
        order.finish(place)
        finished.append(order.finished)

    assert finished == [0, 0, 3, 4]


def test_an_order_goes_on_where_its_store_left_off() -> None:
    order = Order("key", 10, finished=41)
    assert order.finished == order.admitted == 41

    order.admit(42, ("a",))
    order.finish(42)

    assert order.finished == 42


def test_the_window_counts_from_the_oldest_unfinished_place() -> None:
    order = _order(("a",), ("b",), window=3)
    order.take()
    order.finish(2)
    full = [order.is_full]
    order.admit(3, ("c",))
    full.append(order.is_full)
    order.finish(1)
    full.append(order.is_full)

    assert full == [False, True, False]
    assert len(order) == 1


def test_nothing_follows_a_place_in_doubt_until_it_is_finished() -> None:
    order = _order(("a",), ("a",), ("b",))
    assert order.take() == [1, 3]

    order.hold(1)
    assert (order.take(), order.held) == ([], [1])

    order.finish(1)
    assert (order.take(), order.held) == ([2], [])


def test_a_place_in_doubt_that_is_sent_again_is_told_again_and_still_nothing_follows() -> None:
    order = _order(("a",), ("a",))
    order.take()
    order.hold(1)

    order.resume(1)
    assert order.take() == [1]
    assert order.take() == []


def test_a_place_that_was_in_doubt_before_a_restart_is_not_told_until_it_is_resumed_and_its_turn_has_come() -> None:
    order = _order(("a",), ("a",), ("a",))
    order.hold(2)
    order.take()

    order.finish(1)
    assert order.take() == []
    order.resume(2)
    assert order.take() == [2]


def test_a_place_that_is_resumed_before_its_turn_waits_for_it() -> None:
    order = _order(("a",), ("a",))
    order.hold(2)
    order.resume(2)

    assert order.take() == [1]
    order.finish(1)
    assert order.take() == [2]


def test_a_place_finished_before_its_turn_is_never_told_and_passes_its_turn_on() -> None:
    order = _order(("a",), ("a",), ("a",), None, ("b",))

    order.finish(2)
    order.finish(4)
    assert order.take() == [1]
    assert order.finished == 0
    order.finish(1)
    assert (order.take(), order.finished) == ([3], 2)
    order.finish(3)
    assert (order.take(), order.finished) == ([5], 4)


def test_a_second_end_of_a_place_changes_nothing() -> None:
    order = _order(("a",), ("a",), ("a",))
    order.take()
    order.finish(1)
    order.take()

    order.finish(1)
    order.hold(1)
    order.resume(1)

    assert (order.take(), order.finished, order.held) == ([], 1, [])


@pytest.mark.parametrize("what", ["finish", "hold", "resume"])
def test_a_place_that_was_never_admitted_is_refused(what: str) -> None:
    order = _order(("a",))

    with pytest.raises(ValueError, match="place 2 is not admitted; the newest is 1"):
        getattr(order, what)(2)


def test_a_place_out_of_order_is_refused_and_changes_nothing() -> None:
    order = _order(("a",), ("b",))

    with pytest.raises(ValueError, match="place 2 comes after place 2"):
        order.admit(2, ("c",))

    assert (order.take(), len(order)) == ([1, 2], 2)


def test_what_is_finished_leaves_nothing_behind() -> None:
    order = Order("key", 10)
    for place in range(1, 1_000):
        order.admit(place, None if place % 7 == 0 else (f"key {place % 5}", f"key {place % 3}"))
        for each in order.take():
            order.finish(each)

    assert order.finished == 999
    assert (order._open, order._newest, list(order._line), order._ready) == ({}, {}, [], [])
