"""Stretches: against a naive twin that knows the size of every entry."""

from __future__ import annotations

import random

import pytest

from holdfast.channel.channel import Stretch
from holdfast.channel.jetstream.machines.stretches import AHEAD_MAX, Stretches


def noted(count: int, size: int = 10, stretch_bytes: int = 35) -> Stretches:
    made = Stretches(stretch_bytes)
    for number in range(1, count + 1):
        made.note(number, size)
    return made


def test_a_stretch_is_complete_when_it_has_its_bytes() -> None:
    assert noted(3).oldest(1, 30) is None
    assert noted(4).oldest(1, 40) == Stretch(1, 4, 40)
    assert noted(9).oldest(1, 90) == Stretch(1, 4, 40)


def test_after_a_release_the_next_stretch_is_the_oldest() -> None:
    made = noted(12)

    assert made.oldest(5, 80) == Stretch(5, 8, 40)
    assert made.oldest(9, 40) == Stretch(9, 12, 40)
    assert made.oldest(13, 0) is None


def test_what_is_left_of_a_stretch_that_was_freed_in_part_joins_the_next() -> None:
    """Alone it may be one unfinished entry, of which upkeep would think that it is not worth carrying."""
    assert noted(12).oldest(3, 100) == Stretch(3, 8, 20 + 40)
    assert noted(6).oldest(3, 40) is None

    made = noted(6)
    made.oldest(3, 40)
    made.note(7, 10)
    assert made.oldest(3, 50) == Stretch(3, 7, 20 + 30)


def test_sizes_may_be_noted_in_any_order_and_twice() -> None:
    dice = random.Random(3)
    for _ in range(50):
        made = Stretches(35)
        numbers = [number for number in range(1, 13) for _ in range(2)]
        dice.shuffle(numbers)
        for number in numbers:
            made.note(number, 10)

        assert [made.oldest(first, 120) for first in (1, 5, 9)] == [Stretch(1, 4, 40), Stretch(5, 8, 40), Stretch(9, 12, 40)]


def test_entries_that_nobody_noted_are_one_stretch_with_the_bytes_that_are_left() -> None:
    made = Stretches(35)
    for number in range(1001, 1001 + AHEAD_MAX + 1):
        made.note(number, 10)

    assert made.oldest(1, 5000 + (AHEAD_MAX + 1) * 10) == Stretch(1, 1000, 5000)
    assert made.oldest(1001, 10**9) == Stretch(1001, 1004, 40)


def test_what_was_released_before_it_was_noted_is_no_part_of_a_stretch() -> None:
    made = Stretches(35)
    made.note(3, 10)

    assert made.oldest(10, 0) is None
    for number in range(10, 14):
        made.note(number, 10)
    assert made.oldest(10, 40) == Stretch(10, 13, 40)


@pytest.mark.parametrize("at", range(1, 13))
def test_a_reader_that_starts_from_a_snapshot_at_any_entry_knows_what_its_saver_knew(at: int) -> None:
    saver, reader = noted(12), Stretches(35)

    reader.adopt(saver.saved(at))
    for number in range(at + 1, 13):
        reader.note(number, 10)

    assert [reader.oldest(first, 120) for first in (1, 5, 9)] == [saver.oldest(first, 120) for first in (1, 5, 9)]


def test_a_snapshot_that_knows_less_changes_nothing() -> None:
    made = noted(12)

    made.adopt(noted(6).saved(6))
    made.adopt([])

    assert made.oldest(9, 120) == Stretch(9, 12, 40)


def test_a_snapshot_of_a_saver_that_began_later_does_not_hide_what_is_known_here() -> None:
    made = noted(6)

    made.adopt([(5, 20, 160)])

    assert made.oldest(1, 200) == Stretch(1, 4, 40)


def test_any_history_of_notes_releases_and_snapshots_agrees_with_a_twin_that_knows_every_size() -> None:
    for seed in range(300):
        dice = random.Random(seed)
        sizes = {number: dice.choice([1, 5, 20, 60]) for number in range(1, 80)}
        made = Stretches(50)
        twin: list[Stretch] = []
        open_first, open_bytes = 1, 0
        for number, size in sizes.items():
            made.note(number, size)
            open_bytes += size
            if open_bytes >= 50:
                twin.append(Stretch(open_first, number, open_bytes))
                open_first, open_bytes = number + 1, 0
            if twin and dice.random() < 0.3:
                assert made.oldest(twin[0].first, 0) == twin[0]
                if dice.random() < 0.5:
                    del twin[0]
            if dice.random() < 0.1:
                restarted = Stretches(50, twin[0].first if twin else open_first)
                saved = made.saved(number)
                assert sum(each[2] for each in saved) <= sum(sizes[each] for each in range(1, number + 1))
                restarted.adopt(saved)
                made = restarted
