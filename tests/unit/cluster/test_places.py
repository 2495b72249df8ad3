"""The table of places: which message manager owns each destination (ADR 22)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cluster.places import EVERYWHERE, PlaceTable, Rule
from holdfast.errors import BadSetting, HoldfastError
from holdfast.event.pattern import Pattern

MANAGERS = ("m1", "m2", "m3")
NAMES = st.sampled_from([f"q{number}" for number in range(8)])


def fixed(name: str) -> str | None:
    return EVERYWHERE if ":" in name else "m1" if name.startswith("_") else None


def never(problem: HoldfastError) -> None:
    raise problem


def placed(table: PlaceTable, name: str) -> str:
    told: list[str] = []
    table.reserve(name, told.append, never)
    (manager,) = told
    return manager


def test_a_new_destination_goes_to_the_manager_with_the_fewest() -> None:
    table = PlaceTable(MANAGERS, fixed, known={"a": "m1", "b": "m3"})

    assert [placed(table, name) for name in ("c", "d", "e", "f")] == ["m2", "m1", "m2", "m3"]


def test_the_first_rule_that_matches_says_where_it_goes() -> None:
    rules = [Rule(Pattern.glob("orders.>"), "m3"), Rule(Pattern.glob("orders.eu"), "m2")]
    table = PlaceTable(MANAGERS, fixed, rules)

    assert [placed(table, name) for name in ("orders.eu", "orders.us", "invoices")] == ["m3", "m3", "m1"]


def test_a_rule_for_a_manager_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadSetting, match="there is no manager 'm9'"):
        PlaceTable(MANAGERS, fixed, [Rule(Pattern.glob("a"), "m9")])


def test_names_that_need_no_entry_get_none() -> None:
    noted: list[tuple[str, str]] = []
    table = PlaceTable(MANAGERS, fixed, changed=lambda *change: noted.append(change))

    assert [placed(table, name) for name in ("glob:a.*", "_LOG")] == [EVERYWHERE, "m1"]
    assert noted == []


def test_a_change_that_cannot_be_made_lasting_does_not_count() -> None:
    def fail(destination: str, manager: str) -> None:
        raise OSError("the disk is full")

    table = PlaceTable(MANAGERS, fixed, changed=fail)
    with pytest.raises(OSError, match="full"):
        placed(table, "orders")
    assert table.find("orders") is None


def test_the_place_of_a_manager_that_is_no_more_is_none() -> None:
    assert PlaceTable(MANAGERS, fixed, known={"a": "m9"}).find("a") is None


@given(st.lists(st.tuples(st.sampled_from(["reserve", "note"]), NAMES, st.sampled_from(MANAGERS)), max_size=60))
def test_a_place_never_changes_and_is_what_was_made_lasting(steps: list[tuple[str, str, str]]) -> None:
    twin: dict[str, str] = {}

    def change(destination: str, manager: str) -> None:
        assert destination not in twin
        twin[destination] = manager

    table = PlaceTable(MANAGERS, fixed, changed=change)
    for step, name, manager in steps:
        before = twin.get(name)
        if step == "reserve":
            assert before in (None, placed(table, name))
        else:
            assert table.note(name, manager) == (before in (None, manager))
        assert table.find(name) == twin.get(name)
    assert {name: each for each in MANAGERS for name in table.at(each)} == twin
