"""Heartbeats that did not come are counted while they are missing, and never twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from holdfast.cluster.liveness import FORGOTTEN_MS, HEARTBEAT_MS
from holdfast.cluster.missed_beats import MissedBeats


def test_heartbeats_that_come_in_time_or_half_an_interval_late_are_not_missed() -> None:
    beats = MissedBeats()
    for now_ms in (0, 100, 249, 330, 430):
        beats.heard("a", now_ms)

    assert beats.counts(440) == {"a": 0}


def test_those_of_a_silent_node_are_counted_as_time_passes_and_not_again_when_it_comes_back() -> None:
    beats = MissedBeats()
    beats.heard("a", 0)

    assert [beats.counts(now_ms)["a"] for now_ms in (100, 149, 150, 250, 350)] == [0, 0, 1, 2, 3]

    beats.heard("a", 350)
    assert beats.counts(400) == {"a": 3}


def test_a_node_that_is_silent_for_very_long_is_forgotten() -> None:
    beats = MissedBeats()
    beats.heard("a", 0)
    beats.heard("b", FORGOTTEN_MS - 100)

    assert list(beats.counts(FORGOTTEN_MS)) == ["b"]


@given(some.lists(some.integers(0, 1_000), max_size=30))
def test_no_count_ever_falls_and_none_exceeds_the_intervals_that_passed(gaps_ms: list[int]) -> None:
    beats = MissedBeats()
    beats.heard("a", 0)
    now_ms, before = 0, 0
    for place, gap_ms in enumerate(gaps_ms):
        now_ms += gap_ms
        if place % 2:
            beats.heard("a", now_ms)
        now = beats.counts(now_ms)["a"]
        assert before <= now <= now_ms // HEARTBEAT_MS
        before = now
