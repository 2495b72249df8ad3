"""The parts of the stream source that need neither Spark nor a server: offsets, pieces, when something is safe (D1)."""

from __future__ import annotations

import pytest

from holdfast.client.reading import Extent
from holdfast.spark.source.offsets import Mark, Range, ranges, thinned, written
from holdfast.spark.source.owning import Allowance
from holdfast.spark.source.planning import PIECE_EVENTS_MAX, pieces_of
from holdfast.spark.source.safety import Aged, Synced, safety


def extent(events: int, size: int = 0) -> Extent:
    return Extent("x:1", 0, 0, events, [], events, size, 0, events)


def test_a_batch_is_divided_where_its_end_says_whoever_asks() -> None:
    start = {"a": Mark("x:1", 100, (50,)), "b": Mark("x:2", 7)}
    end = {"a": Mark("x:1", 400, (200, 300)), "b": Mark("x:2", 7), "new": Mark("x:3", 9)}

    assert ranges(start, end) == [Range("a", 100, 200), Range("a", 200, 300), Range("a", 300, 400)]


def test_a_mark_of_another_subscription_says_nothing_of_where_to_begin() -> None:
    assert ranges({"a": Mark("x:1", 100)}, {"a": Mark("x:9", 40)}) == [Range("a", 0, 40)]


def test_offsets_have_one_text_however_they_came_about() -> None:
    one, other = {"b": Mark("x", 1), "a": Mark("y", 2)}, {"a": Mark("y", 2, ()), "b": Mark("x", 1)}

    assert str(written(one)) == str(written(other)) == "{'a': ['y', 2], 'b': ['x', 1]}"


@pytest.mark.parametrize(
    ("pieces", "kept"), [(1, ()), (2, (40,)), (4, (20, 40, 60)), (8, tuple(range(10, 80, 10))), (99, tuple(range(10, 80, 10)))]
)
def test_of_many_cuts_fewer_are_taken_evenly(pieces: int, kept: tuple[int, ...]) -> None:
    assert thinned(list(range(10, 80, 10)), pieces) == kept


def test_a_small_batch_is_one_piece_a_large_one_many_and_never_fewer_than_asked_for() -> None:
    assert pieces_of(extent(100), 1) == 1
    assert pieces_of(extent(100), 5) == 5
    assert pieces_of(extent(40 * PIECE_EVENTS_MAX), 1) >= 40
    assert pieces_of(extent(100, 1 << 30), 1) >= 16


def test_a_commit_is_synced_once_before_it_is_safe() -> None:
    synced: list[str] = []
    safe = Synced(lambda: synced.append("sync"))
    first, second = {"a": Mark("x", 1)}, {"a": Mark("x", 2)}

    assert [safe.safe(first), safe.safe(first), safe.safe(second)] == [first, None, second]
    assert synced == ["sync", "sync"]


def test_with_a_grace_period_only_what_is_old_enough_is_safe_and_the_newest_of_it() -> None:
    now = [0.0]
    safe = Aged(10, lambda: now[0])
    marks = [{"a": Mark("x", place)} for place in range(3)]

    found = []
    for now[0], committed in ((0, marks[0]), (4, marks[1]), (9, marks[1]), (15, marks[2]), (15, marks[2]), (26, marks[2])):
        found.append(safe.safe(committed))

    assert found == [None, None, None, marks[1], None, marks[2]]
    assert isinstance(safety(0.0), Aged) and isinstance(safety("local"), Synced)


def test_limits_are_shared_equally_and_never_to_nothing() -> None:
    share = Allowance(10, 3).share(4)

    assert (share.events, share.bytes) == (2, 1)
    assert (Allowance().share(4).events, Allowance(10).left([extent(4), extent(9)]).events) == (None, 0)


def test_with_a_grace_period_the_last_commit_says_how_long_it_needs_until_it_is_safe() -> None:
    now = [0.0]
    safe = Aged(10, lambda: now[0])
    assert safe.seconds_left() == 0

    safe.safe({"a": Mark("x", 1)})
    now[0] = 4

    assert safe.seconds_left() == 6
    now[0] = 30
    assert safe.safe({"a": Mark("x", 1)}) == {"a": Mark("x", 1)}
    assert (safe.seconds_left(), Synced(lambda: None).seconds_left()) == (0, 0)
