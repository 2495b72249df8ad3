"""A set of positions as ranges, held against a plain set."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from holdfast.relay.machines.position_set import PositionSet

RUNS = st.tuples(st.integers(1, 40), st.integers(0, 9)).map(lambda drawn: (drawn[0], drawn[0] + drawn[1]))
STEPS = st.lists(st.tuples(st.sampled_from(["add", "remove"]), RUNS), max_size=30)


def positions(runs: object) -> set[int]:
    return {position for first, last in runs for position in range(first, last + 1)}  # type: ignore[attr-defined]


@given(STEPS, RUNS)
def test_it_answers_as_a_plain_set_does(steps: list[tuple[str, tuple[int, int]]], asked: tuple[int, int]) -> None:
    made, naive = PositionSet(), set[int]()

    for step, (first, last) in steps:
        getattr(made, step)(first, last)
        naive = naive | positions([(first, last)]) if step == "add" else naive - positions([(first, last)])

    assert positions(made) == naive
    assert made.count == len(naive)
    assert bool(made) == bool(naive)
    assert positions(made.within(*asked)) == naive & positions([asked])
    assert positions(made.without(*asked)) == positions([asked]) - naive
    assert made.covers(*asked) == (positions([asked]) <= naive)
    assert positions(made.ranges()) == naive


@given(STEPS)
def test_its_ranges_never_touch(steps: list[tuple[str, tuple[int, int]]]) -> None:
    made = PositionSet()
    for step, run in steps:
        getattr(made, step)(*run)

    runs = list(made)
    assert all(before[1] + 1 < after[0] for before, after in itertools.pairwise(runs))
