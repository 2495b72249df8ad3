"""The tail judge: every way in which numbers can contradict each other, and the ways in which they only seem to."""

from __future__ import annotations

import itertools

from holdfast.channel.jetstream.machines.tail_judge import CHECKSUMS_MAX, CONTRADICTIONS_MAX, TailJudge


def test_an_acknowledgement_is_judged_by_what_was_known_when_its_command_was_sent() -> None:
    for known, number in itertools.product(range(6), range(1, 8)):
        wrong = TailJudge().accepted(number, 7, known)

        assert bool(wrong) == (number <= known)


def test_an_acknowledgement_behind_an_entry_that_was_read_meanwhile_is_right() -> None:
    judge = TailJudge()
    known_when_sent = judge.known
    judge.saw(9, 1)

    assert judge.accepted(8, 2, known_when_sent) == ""
    assert judge.known == 9


def test_a_number_that_was_given_again_names_what_was_lost() -> None:
    judge = TailJudge()
    judge.saw(20, 1)

    assert "entries from 11 on were lost" in judge.accepted(11, 2, judge.known)
    assert judge.known == 20


def test_an_entry_that_is_read_again_has_the_checksum_it_had() -> None:
    judge = TailJudge()

    assert judge.saw(5, 0xAB) == judge.saw(5, 0xAB) == ""
    assert "entry 5" in judge.saw(5, 0xAC)
    assert "000000ab" in judge.accepted(5, 0xAC, 0)


def test_checksums_are_kept_for_the_newest_entries_only() -> None:
    judge = TailJudge()
    for number in range(1, CHECKSUMS_MAX + 2):
        judge.saw(number, number)

    assert judge.saw(1, 999) == ""
    assert judge.saw(CHECKSUMS_MAX + 1, 999)


def test_a_last_number_that_is_too_low_counts_after_the_third_time_in_a_row() -> None:
    for answers in itertools.product([True, False], repeat=2 * CONTRADICTIONS_MAX):
        judge = TailJudge()
        in_a_row = 0
        for is_low in answers:
            in_a_row = in_a_row + 1 if is_low else 0

            assert bool(judge.heard_last(9 if is_low else 10, 10)) == (in_a_row >= CONTRADICTIONS_MAX)


def test_a_last_number_that_is_higher_becomes_known() -> None:
    judge = TailJudge()

    assert judge.heard_last(12, 10) == ""
    assert judge.known == 12


def test_a_last_number_counts_only_of_a_leader_that_hears_a_majority() -> None:
    for answers in itertools.product(["low", "low and alone", "right"], repeat=2 * CONTRADICTIONS_MAX):
        judge = TailJudge()
        in_a_row = 0
        for answer in answers:
            in_a_row = 0 if answer == "right" else in_a_row + (answer == "low")

            wrong = judge.heard_last(10 if answer == "right" else 9, 10, is_led=answer != "low and alone")

            assert bool(wrong) == (answer == "low" and in_a_row >= CONTRADICTIONS_MAX)
