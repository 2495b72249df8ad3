"""When a route that is far behind tells how far it has come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.relay.machines.catching_up import EVERY_S, WAITING_MIN, CatchingUp


def test_a_route_that_is_far_behind_tells_at_once_then_every_ten_seconds_and_when_it_has_caught_up() -> None:
    behind = CatchingUp()

    assert behind.look(WAITING_MIN - 1, 0.0, 0.0) == ""
    assert behind.look(50_000, 1_000.0, 1.0) == "catches up: 50,000 events wait upstream, 1,000 events/s, 50 s left"
    assert behind.look(40_000, 1_000.0, 5.0) == ""
    assert behind.look(30_000, 0.0, 11.0) == "catches up: 30,000 events wait upstream, 0 events/s"
    assert behind.look(300, 1_000.0, 12.0) == "has caught up: 300 events wait upstream"
    assert behind.look(0, 0.0, 30.0) == ""
    assert behind.look(WAITING_MIN, 10.0, 31.0).startswith("catches up")


@given(st.lists(st.tuples(st.integers(0, 3 * WAITING_MIN), st.floats(0.01, 5.0)), max_size=60))
def test_lines_are_never_closer_than_ten_seconds_unless_it_caught_up_between_them(looks: list[tuple[int, float]]) -> None:
    behind, now_s, told_s = CatchingUp(), 0.0, -EVERY_S
    for waiting, passed_s in looks:
        now_s += passed_s
        told = behind.look(waiting, 1.0, now_s)
        if told.startswith("has caught up") or waiting < WAITING_MIN:
            told_s = -EVERY_S
        elif told:
            assert now_s - told_s >= EVERY_S
            told_s = now_s
        else:
            assert now_s - told_s < EVERY_S, "a line is due, and was not told"
