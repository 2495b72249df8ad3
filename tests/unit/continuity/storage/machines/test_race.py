"""A race between places: one winner, never one that is behind, never one that failed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.continuity.storage.machines.race import Race


def test_the_first_that_is_not_behind_wins() -> None:
    race = Race("abc", number=7)

    assert race.answer("a", 6) == "declined"
    assert race.answer("b", 7) == "win"
    assert race.answer("c", 9) == "late"
    assert race.winner == "b"


def test_when_the_winner_breaks_off_all_others_that_have_not_failed_run_on() -> None:
    race = Race("abc")
    race.answer("a", 0)

    assert race.fail("a") == ["b", "c"]
    race.decline("b")
    assert race.answer("a", 0) == "late"
    assert race.answer("c", 0) == "win"


def test_in_a_race_that_everybody_declines_nobody_is_left() -> None:
    race = Race("ab")
    race.decline("a")
    assert race.runners == ["b"]
    race.fail("b")

    assert (race.runners, race.winner) == ([], "")


MOVES = st.lists(
    st.tuples(st.sampled_from(["answer", "decline", "fail"]), st.sampled_from("abc"), st.integers(0, 3)), max_size=30
)


@given(MOVES, st.integers(0, 3))
def test_a_winner_has_reached_the_number_and_has_not_failed_before(moves: list[tuple[str, str, int]], number: int) -> None:
    race = Race("abc", number)
    out: set[str] = set()
    for kind, place, reached in moves:
        if kind == "answer":
            had_winner = race.winner
            if race.answer(place, reached) == "win":
                assert not had_winner and place not in out and reached >= number
            elif reached < number and not had_winner:
                out.add(place)
        elif kind == "fail" or place != race.winner:
            (race.fail if kind == "fail" else race.decline)(place)
            out.add(place)

    assert race.winner not in out
    assert out.isdisjoint(race.runners)
