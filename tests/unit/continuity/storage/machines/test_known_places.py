"""Who is asked, and where bytes are staged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.continuity.storage.machines.known_places import FRESH_SECONDS, KnownPlaces, PlaceState

STATES = st.sampled_from(["current", "joining", "filling", "waiting", "silent"])


def told(name: str, state: str = "current", number: int = 1) -> PlaceState:
    return PlaceState(name, f"{name}:1", state, number)


def test_a_place_that_failed_is_asked_again_when_it_has_told_its_state_anew() -> None:
    known = KnownPlaces()
    known.tell([told("a"), told("b")], 10.0)

    known.fail("a", 11.0)
    assert list(known.current(11.5)) == ["b"]

    known.tell([told("a")], 12.0)
    assert list(known.current(12.5)) == ["a", "b"]


def test_what_was_told_counts_only_while_it_is_fresh() -> None:
    known = KnownPlaces()
    known.tell([told("a")], 10.0)

    assert list(known.current(10.0 + FRESH_SECONDS)) == ["a"]
    assert list(known.current(10.1 + FRESH_SECONDS)) == []


def test_a_place_that_is_filled_or_joins_is_not_asked_for_names_and_may_give_bytes() -> None:
    known = KnownPlaces()
    known.tell([told("a", "filling"), told("b", "waiting"), told("c", "silent")], 1.0)

    assert list(known.current(1.0)) == []
    assert list(known.reachable(1.0)) == ["a", "b"]


@given(st.lists(st.tuples(st.sampled_from("abcd"), STATES, st.integers(0, 9)), max_size=20), st.integers(1, 3), st.integers(0, 9))
def test_bytes_are_staged_at_enough_current_places_or_nowhere_and_reads_never_go_back(
    states: list[tuple[str, str, int]], places_min: int, turn: int
) -> None:
    known = KnownPlaces()
    for name, state, number in states:
        before = known.number
        known.tell([told(name, state, number)], 1.0)
        assert known.number == max(before, number)

    chosen = [each.name for each in known.staged_at(places_min, 2.0, turn)]
    current = list(known.current(2.0))

    assert set(chosen) <= set(current)
    assert len(set(chosen)) == len(chosen) == (min(places_min + 1, len(current)) if len(current) >= places_min else 0)


def test_a_place_that_answers_and_has_writes_to_apply_is_catching_up_and_one_that_failed_is_not() -> None:
    known = KnownPlaces()
    behind = [
        PlaceState(name, f"{name}:1", state, 1, lag=9) for name, state in (("a", "silent"), ("b", "joining"), ("c", "current"))
    ]
    known.tell([*behind, told("d", "silent")], 10.0)

    assert list(known.catching_up(10.0)) == ["a", "b"]
    known.fail("a", 11.0)
    assert list(known.catching_up(11.0)) == ["b"]
    assert list(known.catching_up(10.1 + FRESH_SECONDS)) == []
