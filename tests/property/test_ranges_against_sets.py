"""Ranges of positions against sets of numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as make

from holdfast.event.position import Ranges

pairs = make.lists(make.tuples(make.integers(1, 60), make.integers(0, 6)).map(lambda pair: (pair[0], sum(pair))), max_size=12)


def numbers(ranges: Ranges) -> set[int]:
    return {each for first, last in ranges for each in range(first, last + 1)}


@given(pairs, pairs)
def test_what_ranges_have_in_common_and_what_they_have_not(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    these, those = Ranges.gather(one), Ranges.gather(other)

    assert numbers(these.common(those)) == numbers(these) & numbers(those)
    assert numbers(these.without(those)) == numbers(these) - numbers(those)
    assert Ranges.from_bytes(these.common(those).to_bytes()) == these.common(those)
