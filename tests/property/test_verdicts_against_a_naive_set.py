"""Ranges of verdicts and of what is held, against plain sets of positions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.client.receiving.attachment.held import Held
from holdfast.client.receiving.verdict_buffer import VerdictRanges
from holdfast.event.position import Ranges

ENTRY = 1 << 16


def positions(ranges: Ranges, within: set[int]) -> set[int]:
    return {each for each in within if any(first <= each <= last for first, last in ranges)}


@given(st.data())
def test_ranges_confirm_exactly_what_was_confirmed_however_slices_come_and_verdicts_go(data: st.DataObject) -> None:
    """A range may span other destinations' entries, never an event of this backlog that was not confirmed."""
    sizes = data.draw(st.lists(st.integers(1, 2), min_size=2, max_size=5))
    slices = [[ENTRY * (number + 1) * 2 + index for index in range(size)] for number, size in enumerate(sizes)]
    backlog = {position for each in slices for position in each}
    ours = data.draw(st.permutations(slices).flatmap(lambda order: st.integers(1, len(order)).map(lambda count: order[:count])))
    verdicts, handed, confirmed, found = VerdictRanges(), set[int](), set[int](), set[int]()
    before: list[int] | None = None

    for each in ours:
        between = range(0)
        if before is not None:
            between = range(min(before[-1], each[-1]) + 1, max(before[0], each[0]))
        is_adjoining = before is not None and not any(position in between for position in backlog - handed - set(each))
        verdicts.handed(each[0], each[-1], is_adjoining)
        handed |= set(each)
        before = each
        for position in each if data.draw(st.booleans()) else data.draw(st.lists(st.sampled_from(sorted(handed)), unique=True)):
            if position not in confirmed:
                confirmed.add(position)
                verdicts.confirm(position)
        if data.draw(st.integers(0, 3)) == 0:
            for settlement in verdicts.take():
                found |= positions(settlement.ranges, backlog)
    for settlement in verdicts.take():
        found |= positions(settlement.ranges, backlog)

    assert found == confirmed


spans = st.tuples(st.integers(0, 60), st.integers(0, 10)).map(lambda span: (span[0], span[0] + span[1]))


@given(st.lists(st.tuples(st.booleans(), spans), max_size=40))
def test_held_is_what_a_set_would_hold(steps: list[tuple[bool, tuple[int, int]]]) -> None:
    held, naive = Held(), set[int]()

    for is_added, (first, last) in steps:
        if is_added:
            held.add(first, last)
            naive |= set(range(first, last + 1))
        else:
            held.remove(first, last)
            naive -= set(range(first, last + 1))

    assert positions(held.ranges(), set(range(100))) == naive
    assert bool(held) == bool(naive)
    copied = held.copy()
    held.clear()
    assert positions(copied.ranges(), set(range(100))) == naive
    assert not held
