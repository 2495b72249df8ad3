"""The backlog by itself: what waits, in placement order, at twelve bytes a batch."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator

import pytest

from holdfast.destination.backlog import slots
from holdfast.destination.backlog.backlog import Backlog
from holdfast.event.position import Ranges, of


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pages of three slots, so that a few batches fill several."""
    monkeypatch.setattr(slots, "SLOTS_MAX", 3)
    yield


def walk(backlog: Backlog) -> list[int]:
    """The entries with something waiting, in placement order."""
    found, slot = [], 0
    while (run := backlog.next_run(slot)) is not None:
        found.append(run[1] >> 16)
        slot = run[0] + 1
    return found


def test_finishing_says_what_is_newly_finished_and_passes_over_the_rest() -> None:
    backlog = Backlog()
    backlog.place(5, 4)
    backlog.place(9, 2)
    assert backlog.finish(Ranges.of((of(5, 1), of(5, 2)))) == Ranges.of((of(5, 1), of(5, 2)))

    again = backlog.finish(Ranges.of((of(4), of(7)), (of(9, 1), of(12))))

    assert again == Ranges.of((of(5, 0), of(5, 0)), (of(5, 3), of(5, 3)), (of(9, 1), of(9, 1)))
    assert backlog.waiting == 1
    assert backlog.is_waiting(of(9))
    assert not backlog.is_waiting(of(9, 1))


def test_a_range_may_span_entries_of_other_destinations() -> None:
    backlog = Backlog()
    for entry in (3, 10, 400):
        backlog.place(entry, 1)

    finished = backlog.finish(Ranges.of((of(2), of(399, 7))))

    assert finished == Ranges.of((of(3), of(3)), (of(10), of(10)))
    assert walk(backlog) == [400]


@pytest.mark.usefixtures("small_pages")
def test_a_batch_that_was_held_back_keeps_its_place_in_placement_order_and_is_found_by_its_entry() -> None:
    """Rule 6: entry 4 was held back and placed after 5, 6 and 7."""
    backlog = Backlog()
    for entry in (3, 5, 6, 7, 4, 8, 9):
        backlog.place(entry, 2)

    assert walk(backlog) == [3, 5, 6, 7, 4, 8, 9]
    assert backlog.finish(Ranges.of((of(4), of(4, 1)))) == Ranges.of((of(4), of(4, 1)))
    assert walk(backlog) == [3, 5, 6, 7, 8, 9]
    assert backlog.finish(Ranges.of((of(3), of(8, 1)))) == Ranges.of(*((of(entry), of(entry, 1)) for entry in (3, 5, 6, 7, 8)))
    assert backlog.oldest_entry() == 9


@pytest.mark.usefixtures("small_pages")
def test_the_oldest_entry_is_the_least_that_waits_also_when_it_was_placed_late() -> None:
    backlog = Backlog()
    for entry in (5, 6, 7, 2, 8):
        backlog.place(entry, 1)

    oldest = []
    for entry in (5, 2, 6, 8, 7):
        oldest.append(backlog.oldest_entry())
        backlog.finish(Ranges.of((of(entry), of(entry))))

    assert oldest == [2, 2, 6, 7, 7]
    assert backlog.oldest_entry() is None


@pytest.mark.usefixtures("small_pages")
def test_pages_that_are_finished_are_dropped_also_in_the_middle() -> None:
    backlog = Backlog()
    for entry in range(1, 16):
        backlog.place(entry, 1)

    backlog.finish(Ranges.of((of(4), of(12))))

    assert [each.first_slot for each in backlog.pages()] == [0, 12]
    assert walk(backlog) == [1, 2, 3, 13, 14, 15]


def test_counted_returns_add_up_and_a_new_epoch_adds_one_for_what_was_in_hand() -> None:
    """Rule 5."""
    backlog = Backlog()
    for entry in (1, 2, 3):
        backlog.place(entry, 3)
    backlog.give_back(Ranges.of((of(1, 1), of(1, 1))), 0, is_counted=True)
    backlog.give_back(Ranges.of((of(1, 2), of(1, 2))), 0, is_counted=False)
    backlog.note_in_hand(Ranges.of((of(1, 1), of(2))), ("ann", 1))

    backlog.begin_epoch()
    backlog.begin_epoch()

    counts = [[backlog.deliveries(of(entry, index)) for index in range(3)] for entry in (1, 2, 3)]
    assert counts == [[0, 2, 1], [1, 0, 0], [0, 0, 0]]


def test_what_came_back_uncounted_is_known_until_it_is_finished_and_counts_for_nothing() -> None:
    backlog = Backlog()
    backlog.place(1, 4)
    backlog.give_back(Ranges.of((of(1, 2), of(1, 2))), 0, is_counted=True)
    backlog.give_back(Ranges.of((of(1, 1), of(1, 2))), 0, is_counted=False)

    assert [backlog.deliveries(of(1, index)) for index in range(4)] == [0, 0, 1, 0]
    assert backlog.history.marked_until(of(1), of(1, 3)) == (of(1), False)
    assert backlog.history.marked_until(of(1, 1), of(1, 3)) == (of(1, 1), True)
    assert backlog.history.counted == 1
    backlog.finish(Ranges.of((of(1), of(1, 3))))
    assert not backlog.has_history and not backlog.history.counted


def test_what_was_decided_on_or_left_by_its_holder_is_not_in_hand_any_more() -> None:
    backlog = Backlog()
    for entry in range(1, 6):
        backlog.place(entry, 1)
    backlog.note_in_hand(Ranges.of((of(1), of(4))), ("ann", 1))
    backlog.note_in_hand(Ranges.of((of(5), of(5))), ("bob", 1))

    backlog.finish(Ranges.of((of(1), of(1))))
    backlog.give_back(Ranges.of((of(2), of(2))), 0, is_counted=True)
    backlog.give_back(Ranges.of((of(3), of(3))), 0, is_counted=False)
    backlog.history.leave(("ann", 1))
    backlog.begin_epoch()

    assert [backlog.deliveries(of(entry)) for entry in (2, 3, 4, 5)] == [1, 0, 0, 1]


def test_marks_of_an_older_snapshot_count_on_and_a_batch_placed_behind_them_was_not_delivered() -> None:
    """Rules 5 and 6 together: entry 4 was held back while 5 was handed out."""
    backlog = Backlog()
    backlog.place(5, 1)
    backlog.history.marks = [backlog.place_of(of(5))]

    backlog.place(4, 1)

    assert [backlog.deliveries(of(5)), backlog.deliveries(of(4))] == [1, 0]


def test_a_hundred_thousand_one_event_batches_cost_twelve_bytes_each() -> None:
    tracemalloc.start()
    backlog = Backlog()
    for entry in range(1, 100_001):
        backlog.place(entry, 1)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert used < 12.9 * 100_000


def test_thirty_thousand_events_with_every_second_one_finished_cost_three_bytes_each() -> None:
    tracemalloc.start()
    backlog = Backlog()
    for entry in range(1, 301):
        backlog.place(entry, 100)
        backlog.finish(Ranges.of(*((of(entry, index), of(entry, index)) for index in range(0, 100, 2))))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert backlog.waiting == 15_000
    assert used < 3 * 30_000


def test_finishing_and_walking_cost_the_same_however_much_waits() -> None:
    """Cost stays flat: the same thousand steps at the front of 2,000 batches and of 400,000, best of several tries."""

    def cost_of_steps(backlog: Backlog, first: int) -> float:
        begun = time.process_time()
        for entry in range(first, first + 500):
            run = backlog.next_run(0)
            assert run is not None and run[1] == of(entry)
            backlog.finish(Ranges.of((of(entry), of(entry))))
            backlog.oldest_entry()
        return time.process_time() - begun

    costs = []
    for size in (2_600, 400_000):
        backlog = Backlog()
        for entry in range(1, size + 1):
            backlog.place(entry, 1)
        costs.append(min(cost_of_steps(backlog, 1 + 500 * attempt) for attempt in range(5)))

    assert costs[1] < 4 * costs[0]
