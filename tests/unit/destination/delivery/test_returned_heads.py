"""What came back is read once, the most urgent first, and memory follows what waits, not what happened."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.destination.delivery import returned_heads
from holdfast.destination.delivery.returned_heads import URGENT, ReturnedHeads

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "forget", "take"]),
        st.sampled_from([URGENT, -9, -4, 0]),
        st.integers(0, 30),
        st.integers(0, 5),
    ),
    max_size=60,
)


@given(STEPS)
def test_each_event_is_told_once_at_its_most_urgent_priority(steps: list[tuple[str, int, int, int]]) -> None:
    heads = ReturnedHeads(lambda position: position)
    naive: dict[int, int] = {}

    for what, descent, first, more in steps:
        events = range(first, first + more + 1)
        if what == "put":
            heads.put(descent, events[0], events[-1])
            naive |= {each: min(descent, naive.get(each, descent)) for each in events}
        elif what == "forget":
            heads.forget(events[0], events[-1])
            naive = {each: known for each, known in naive.items() if each not in events}
        elif heads:
            told, _, parts = heads.take()
            taken = [each for low, high in parts for each in range(low, high + 1)]
            assert all(naive.pop(each) == told for each in taken)
            assert all(told <= known for known in naive.values())
        assert bool(heads) == bool(naive)

    assert heads.is_urgent or URGENT not in naive.values()


def test_a_view_that_nobody_empties_keeps_no_pointers_to_what_was_finished() -> None:
    heads = ReturnedHeads(lambda position: position)
    for entry in range(10 * returned_heads.POINTERS_SLACK):
        first = entry << 16
        heads.put(-4, first, first + 3)
        heads.put(-4, first, first + 3)
        heads.forget(first, first + 3)

    assert not heads
    assert len(heads) <= returned_heads.POINTERS_SLACK + 1
