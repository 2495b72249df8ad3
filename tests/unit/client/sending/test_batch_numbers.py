"""The numbers of a producer's batches: a hole is filled, or the producer is forgotten."""

from __future__ import annotations

from holdfast.client.sending.batch_numbers import BatchNumbers


def _sent(count: int) -> BatchNumbers:
    numbers = BatchNumbers()
    numbers.opened("p", 0)
    numbers.next += count
    return numbers


def test_the_numbers_go_on_after_the_last_that_the_server_has() -> None:
    numbers = BatchNumbers()

    numbers.opened("p", 7)

    assert (numbers.producer, numbers.next) == ("p", 8)


def test_a_hole_with_nothing_accepted_behind_it_is_filled() -> None:
    numbers = _sent(3)

    numbers.refused(3, may_be_used=False)
    numbers.accepted(1)
    numbers.refused(2, may_be_used=False)
    numbers.mend()

    assert (numbers.producer, numbers.next, numbers.hole, numbers.to_forget) == ("p", 2, None, "")


def test_a_producer_that_left_something_behind_its_hole_is_forgotten() -> None:
    numbers = _sent(3)

    numbers.refused(2, may_be_used=False)
    numbers.accepted(3)
    numbers.mend()

    assert (numbers.producer, numbers.next, numbers.hole, numbers.to_forget) == ("", 1, None, "p")


def test_a_number_that_may_be_used_is_not_used_again() -> None:
    numbers = _sent(1)

    numbers.refused(1, may_be_used=True)
    numbers.mend()

    assert (numbers.producer, numbers.to_forget) == ("", "p")


def test_a_mended_hole_does_not_count_for_the_next() -> None:
    numbers = _sent(2)
    numbers.refused(1, may_be_used=False)
    numbers.accepted(2)
    numbers.mend()
    numbers.opened("q", 0)

    numbers.next += 1
    numbers.refused(1, may_be_used=False)
    numbers.mend()

    assert (numbers.producer, numbers.next) == ("q", 1)


def test_a_server_that_has_less_than_it_receipted_has_forgotten_the_producer() -> None:
    numbers = _sent(3)

    assert numbers.is_forgotten(1, [3])
    assert not numbers.is_forgotten(2, [3])
    assert numbers.is_forgotten(2, [])


def test_beginning_anew_leaves_nothing_of_the_numbers_before() -> None:
    numbers = _sent(2)
    numbers.refused(1, may_be_used=True)

    numbers.begin_anew()

    assert vars(numbers) == vars(BatchNumbers())
