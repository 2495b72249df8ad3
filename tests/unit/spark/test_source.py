"""The parts of the stream source that need neither Spark nor a server: offsets, pieces, when something is safe (D1)."""

from __future__ import annotations

import pytest

from holdfast.client.reading.place_reader import Extent
from holdfast.spark.source.batch_minimum import BatchMinimum
from holdfast.spark.source.idle_wait import IdleWait
from holdfast.spark.source.offsets import PIECE_EVENTS_MAX, Mark, Range, pieces_of, ranges, thinned, written
from holdfast.spark.source.safety import Aged, Synced, safety
from holdfast.spark.source.stream_ownership import Allowance


def extent(events: int, size: int = 0) -> Extent:
    return Extent("x:1", 0, 0, events, [], events, size, 0, events)


def test_a_batch_is_divided_where_its_end_says_whoever_asks() -> None:
    start = {"a": Mark("x:1", 100, (50,)), "b": Mark("x:2", 7)}
    end = {"a": Mark("x:1", 400, (200, 300)), "b": Mark("x:2", 7), "new": Mark("x:3", 9)}

    assert ranges(start, end) == [Range("a", 100, 200, "x"), Range("a", 200, 300, "x"), Range("a", 300, 400, "x")]


def test_a_mark_of_another_subscription_says_nothing_of_where_to_begin() -> None:
    assert ranges({"a": Mark("x:1", 100)}, {"a": Mark("x:9", 40)}) == [Range("a", 0, 40, "x")]


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


# --- how long an idle stream waits ---------------------------------------------------------------------------------------


def asked_by_spark(wait: IdleWait, interval_s: float, questions: int, cost_s: float = 0.02) -> list[float]:
    """How long each of these idle questions takes, as Spark asks them: at the next interval, or at once if that is past."""
    took: list[float] = []
    now, answered = 0.0, None
    for _ in range(questions):
        begin = now
        now += cost_s + wait.next_s(None if answered is None else now - answered)
        answered = now
        took.append(now - begin)
        now = max(now + 0.01, begin + interval_s)
    return took


@pytest.mark.parametrize("interval_s", [0.1, 0.5, 1.0, 30.0])
def test_an_idle_stream_with_a_trigger_interval_never_takes_longer_than_it(interval_s: float) -> None:
    assert max(asked_by_spark(IdleWait(1.0), interval_s, 200)) < interval_s


def test_an_idle_stream_without_an_interval_asks_about_once_a_second() -> None:
    took = asked_by_spark(IdleWait(1.0), 0.0, 200)

    assert sum(took) > 0.9 * 200
    assert max(took) < 1.1


def test_a_stream_that_once_fell_behind_learns_its_interval_again() -> None:
    wait = IdleWait(1.0)
    for _ in range(10):
        wait.next_s(0.0)  # asked at once: each answer took longer than the interval

    assert max(asked_by_spark(wait, 1.0, 50)[20:]) < 1.0
    assert IdleWait(0.0).next_s(0.0) == 0.0


# --- the least that makes a batch ----------------------------------------------------------------------------------------


def test_fewer_events_than_the_minimum_are_held_back_until_the_first_has_waited_long_enough() -> None:
    now = [0.0]
    minimum = BatchMinimum(100, 10.0, lambda: now[0])

    found = []
    for now[0], events in ((0, 0), (5, 40), (14, 60), (15, 60), (16, 1), (17, 100), (18, 99), (27.9, 99), (28, 99)):
        found.append(minimum.is_reached(events))

    assert found == [True, False, False, True, False, True, False, False, True]


def test_without_a_minimum_every_event_is_a_batch() -> None:
    assert all(BatchMinimum(None, 10.0).is_reached(events) for events in (0, 1, 100))
