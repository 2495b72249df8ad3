"""The copy judge: every answer of a small copy, sound or damaged, and the requests that get any set of numbers."""

from __future__ import annotations

import itertools

import pytest

from holdfast.channel.jetstream.machines.copy_judge import Found, judge, spans


def found(number: int, is_sound: bool = True) -> Found:
    return Found(number, b"%d" % number, number, is_sound)


@pytest.mark.parametrize("wanted", [3, 4, 5])
def test_every_copy_of_six_entries_with_any_of_them_missing_or_wrong(wanted: int) -> None:
    for states in itertools.product(["sound", "wrong", "missing"], repeat=6):
        copy = [found(number, state == "sound") for number, state in enumerate(states, 1) if state != "missing"]

        judged = judge(copy, wanted)

        end = next((number for number in range(wanted, 7) if states[number - 1] != "sound"), 7)
        sound = list(range(wanted, end))
        assert [each.number for each in judged.whole] == sound
        has_later = any(state != "missing" for state in states[end - 1 :])
        assert judged.fault_at == (end if has_later else 0), "a copy that ends is behind, not damaged"


def test_requests_cover_the_wanted_numbers_and_read_few_others() -> None:
    for size in range(1, 7):
        for numbers in itertools.combinations(range(1, 13), size):
            made = spans(numbers, count_max=4, hole_max=2)

            covered = [number for span in made for number in range(span.first, span.first + span.length)]
            assert set(numbers) <= set(covered)
            assert len(covered) == len(set(covered))
            assert all(span.length <= 4 for span in made)
            assert all(span.first in numbers and span.first + span.length - 1 in numbers for span in made)


def test_a_long_run_is_one_request_and_scattered_numbers_are_one_each() -> None:
    assert spans(range(1, 257), 256, 3) == [(1, 256)]
    assert spans([100, 1, 50], 256, 3) == [(1, 1), (50, 1), (100, 1)]
    assert spans([], 256, 3) == []
