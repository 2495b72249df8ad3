from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies

from holdfast.destination.backlog.runs import Runs

index = strategies.integers(0, 30)
changes = strategies.lists(strategies.tuples(strategies.booleans(), index, index, strategies.integers(1, 3)), max_size=30)


@given(changes, index, index)
def test_runs_hold_what_a_plain_dict_holds(made: list[tuple[bool, int, int, int]], low: int, high: int) -> None:
    runs: Runs[int] = Runs()
    plain: dict[int, int] = {}
    for is_put, first, last, value in made:
        first, last = sorted((first, last))
        if is_put:
            runs.put(first, last, value)
            plain.update(dict.fromkeys(range(first, last + 1), value))
        else:
            taken = {each: value for start, end, value in runs.cut(first, last) for each in range(start, end + 1)}
            assert taken == {each: plain.pop(each) for each in range(first, last + 1) if each in plain}

    low, high = sorted((low, high))
    over = {each: value for start, end, value in runs.over(low, high) for each in range(start, end + 1)}
    filled = [value for start, end, value in runs.filled(low, high, 0) for _ in range(start, end + 1)]
    assert {each: value for start, end, value in runs for each in range(start, end + 1)} == plain
    assert over == {each: value for each, value in plain.items() if low <= each <= high}
    assert filled == [plain.get(each, 0) for each in range(low, high + 1)]
    assert bool(runs) == bool(plain)


@given(changes)
def test_touching_runs_of_equal_value_are_one(made: list[tuple[bool, int, int, int]]) -> None:
    runs: Runs[int] = Runs()
    for _, first, last, value in made:
        runs.put(min(first, last), max(first, last), value)

    found = list(runs)

    assert all(before[1] < after[0] for before, after in pairwise(found))
    assert not any(before[1] + 1 == after[0] and before[2] == after[2] for before, after in pairwise(found))
