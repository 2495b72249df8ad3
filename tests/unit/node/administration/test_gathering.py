"""One answer out of those of several message managers (ADR 22)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.node.administration.gathering import gathered

PAGE = 3


def page(names: list[str], after: str) -> dict[str, Any]:
    """A page of a message manager that has these destinations, as `answers` gives it."""
    rest = sorted(name for name in names if name > after)
    rows = [{"name": name, "waiting": 1, "redelivery_limit": 5} for name in rest[:PAGE]]
    return {"destinations": rows, "next": rows[-1]["name"] if len(rest) > PAGE else None}


@given(st.lists(st.lists(st.sampled_from("abcdefghijkl"), unique=True), min_size=2, max_size=4))
def test_pages_of_several_managers_add_up_to_all_rows_each_once_in_order(managers: list[list[str]]) -> None:
    found: list[dict[str, Any]] = []
    after: str | None = ""
    while after is not None:
        pages = {f"m{number}": page(names, after) for number, names in enumerate(managers)}
        answer = gathered("list", pages)
        found += answer["destinations"]
        assert answer["next"] is None or answer["next"] > after
        after = answer["next"]

    every = [name for names in managers for name in names]
    assert [row["name"] for row in found] == sorted(set(every))
    assert {row["name"]: row["waiting"] for row in found} == {name: every.count(name) for name in every}
    assert all(row["redelivery_limit"] == 5 for row in found)


def test_the_answer_to_a_command_is_that_of_the_first() -> None:
    assert gathered("", {"m1": "created", "m2": "unchanged"}) == "created"


def test_what_is_at_every_manager_is_described_once_with_its_counts_added_up() -> None:
    one = {"name": "_DMQ", "waiting": 2, "accepted": 7, "redelivery_limit": 0}
    assert gathered("describe", {"m1": one, "m2": {**one, "waiting": 3}}) == {**one, "waiting": 5, "accepted": 14}
