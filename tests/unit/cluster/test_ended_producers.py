"""When a producer whose session is gone may be forgotten: not before ten minutes, nor before two snapshots (rule 6)."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from holdfast.cluster.ended_producers import KEPT_MS, SNAPSHOTS, EndedProducers


def test_a_producer_is_due_after_its_time_and_two_snapshots_with_its_end() -> None:
    for waited_ms, snapshots in itertools.product((0, KEPT_MS - 1, KEPT_MS), range(SNAPSHOTS + 2)):
        ended = EndedProducers()
        ended.note([("press", 7)], 1_000)
        for number in range(snapshots):
            ended.snapshot_saved(7 + number)

        due = ended.due(1_000 + waited_ms)

        assert due == ([("press", 7)] if waited_ms >= KEPT_MS and snapshots >= SNAPSHOTS else [])


def test_a_snapshot_from_before_the_end_does_not_count() -> None:
    ended = EndedProducers()
    ended.note([("press", 7)], 0)
    for at in (5, 6, 6, 7):
        ended.snapshot_saved(at)

    assert ended.due(KEPT_MS) == []


def test_a_producer_that_was_opened_again_begins_anew() -> None:
    ended = EndedProducers()
    ended.note([("press", 7)], 0)
    ended.snapshot_saved(8)
    ended.snapshot_saved(9)

    ended.note([], 100)
    ended.note([("press", 20)], 200)

    assert ended.due(KEPT_MS) == ended.due(KEPT_MS + 200) == []
    ended.snapshot_saved(20)
    ended.snapshot_saved(30)
    assert ended.due(KEPT_MS + 200) == [("press", 20)]


@given(st.lists(st.tuples(st.sampled_from(["end", "open", "save", "wait"]), st.sampled_from("abc"), st.integers(1, KEPT_MS))))
def test_whatever_happens_none_is_due_too_early(steps: list[tuple[str, str, int]]) -> None:
    ended, known, now_ms = EndedProducers(), dict[str, tuple[int, int, int]](), 0
    for entry, (what, producer, wait_ms) in enumerate(steps, 1):
        if what == "end":
            known[producer] = (entry, now_ms, 0)
        elif what == "open":
            known.pop(producer, None)
        elif what == "save":
            ended.snapshot_saved(entry)
            known = {name: (at, since, saved + 1) for name, (at, since, saved) in known.items()}
        else:
            now_ms += wait_ms
        ended.note([(name, at) for name, (at, _, _) in known.items()], now_ms)

        is_due = {name: (at, saved >= SNAPSHOTS and now_ms - since >= KEPT_MS) for name, (at, since, saved) in known.items()}
        assert ended.due(now_ms) == [(name, at) for name, (at, is_so) in is_due.items() if is_so]
