"""Locks of a backlog, against sets of numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.backlog.locks import Locks
from holdfast.event.position import Ranges, of

numbers = st.sets(st.integers(0, 40), max_size=20)


def ranges_of(chosen: set[int]) -> Ranges:
    return Ranges.gather((each, each) for each in chosen)


def members(ranges: Ranges) -> set[int]:
    return {each for first, last in ranges for each in range(first, last + 1)}


@given(st.lists(numbers, max_size=4), numbers, st.data())
def test_locks_are_as_sets_of_positions(groups: list[set[int]], asked: set[int], data: st.DataObject) -> None:
    locks, taken = Locks(), set[int]()
    held = []
    for group in groups:
        held.append(ranges_of(group - taken))
        locks.add(held[-1])
        taken |= group
    if held:
        gone = held.pop(data.draw(st.integers(0, len(held) - 1)))
        locks.remove(gone)
        taken -= members(gone)

    assert members(locks.all()) == taken
    assert members(locks.outside(ranges_of(asked))) == asked - taken
    assert members(locks.inside(ranges_of(asked))) == asked & taken
    assert bool(len(locks)) == bool(taken)


def test_locked_positions_are_neither_finished_nor_returned_and_a_backlog_without_locks_has_none() -> None:
    backlog = Backlog()
    backlog.place(1, 4)
    locked, all_of_it = Ranges.of((of(1, 1), of(1, 2))), Ranges.of((of(1), of(1, 3)))
    backlog.lock(locked)

    assert backlog.give_back(all_of_it, 0, True) == Ranges.of((of(1), of(1)), (of(1, 3), of(1, 3)))
    assert backlog.finish(all_of_it) == Ranges.of((of(1), of(1)), (of(1, 3), of(1, 3)))
    assert backlog.waiting == 2
    backlog.unlock(locked)

    assert backlog.locks is None
    assert backlog.finish(all_of_it) == locked
