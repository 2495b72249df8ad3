"""The verdicts of a receiver: which are known to be applied whole, and which not, or perhaps not."""

from __future__ import annotations

from holdfast.destination.state.receivers import VERDICTS_KNOWN, Receivers

ANN = ("ann", 1)


def test_a_verdict_is_new_until_it_is_noted_and_then_whole_or_not() -> None:
    receivers = Receivers()

    assert receivers.was_whole(ANN, 1) is None
    receivers.note_verdict(ANN, 1, True)
    receivers.note_verdict(ANN, 2, False)

    assert [receivers.was_whole(ANN, number) for number in (1, 2, 3)] == [True, False, None]


def test_a_number_that_was_passed_over_does_not_count_as_applied() -> None:
    receivers = Receivers()
    receivers.note_verdict(ANN, 1, True)

    receivers.note_verdict(ANN, 4, True)

    assert [receivers.was_whole(ANN, number) for number in (1, 2, 3, 4, 5)] == [True, False, False, True, None]


def test_of_what_lies_too_far_back_nothing_is_known() -> None:
    receivers = Receivers()
    receivers.note_verdict(ANN, 1, True)

    receivers.note_verdict(ANN, VERDICTS_KNOWN + 1, True)

    assert receivers.was_whole(ANN, 1) is False
