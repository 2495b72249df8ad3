"""Which local destination an upstream one becomes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import BadName, BadSetting
from holdfast.event.pattern import Pattern
from holdfast.relay.machines.renaming import Renaming

WORDS = st.lists(st.sampled_from(["a", "b7", "c-d"]), min_size=0, max_size=4)


@pytest.mark.parametrize(
    ("source", "to", "name", "expected"),
    [
        ("alerts.**", "branch.berlin.**", "alerts.eu.disk", "branch.berlin.eu.disk"),
        ("alerts.**", "branch.berlin.**", "alerts", "branch.berlin"),
        ("**", "berlin.**", "alerts.eu", "berlin.alerts.eu"),
        ("alerts.**", "**", "alerts.eu.disk", "eu.disk"),
        ("alerts.**.disk", "here.**.space", "alerts.disk", "here.space"),
        ("alerts.**.disk", "here.**.space", "alerts.eu.west.disk", "here.eu.west.space"),
        ("**.disk", "disk.**", "eu.west.disk", "disk.eu.west"),
        ("**.disk", "disk.**", "disk", "disk"),
        ("alerts.*.*", "*.alerts.*", "alerts.eu.disk", "eu.alerts.disk"),
        ("eu-*.new", "x.*", "eu-west.new", "x.west"),
        ("plant/?", "p.?", "plant/7", "p.7"),
        ("alerts.>", "branch/>", "alerts.eu.disk", "branch/eu.disk"),
        ("alerts.>", "alarms", "alerts.eu.disk", "alarms"),
        ("alerts.**", "", "alerts.eu", "alerts.eu"),
        ("alerts", "alarms", "alerts", "alarms"),
    ],
)
def test_a_wildcard_takes_what_its_twin_stood_for(source: str, to: str, name: str, expected: str) -> None:
    assert Pattern.glob(source).matches(name)

    assert Renaming(source, to).target_of(name) == expected


@given(WORDS)
def test_all_words_pass_from_one_prefix_to_another(words: list[str]) -> None:
    renaming = Renaming("alerts.**", "branch.berlin.**")

    assert renaming.target_of(".".join(["alerts", *words])) == ".".join(["branch", "berlin", *words])


@given(WORDS.filter(bool), WORDS)
def test_words_around_another_change_places_with_nothing_lost(before: list[str], after: list[str]) -> None:
    name = ".".join([*before, "MID", *after])
    expected = ".".join(["x", *before, "MID", *after])

    assert Renaming("**", "x.**").target_of(name) == expected


def test_wildcards_that_are_not_those_of_the_source_are_refused() -> None:
    with pytest.raises(BadSetting, match="write the same ones in the same order"):
        Renaming("alerts.*", "branch.**")
    with pytest.raises(BadSetting, match="has none"):
        Renaming("alerts", "branch.*")


def test_wildcards_beside_a_regular_expression_are_refused() -> None:
    with pytest.raises(BadSetting, match="write one name"):
        Renaming(r"alerts\..*", "branch.*", is_regex=True)


def test_names_of_holdfast_itself_are_no_target() -> None:
    with pytest.raises(BadSetting, match="reserved"):
        Renaming("alerts.**", "_LOG.**")
    with pytest.raises(BadName, match="reserved"):
        Renaming("alerts", "_DMQ")


def test_a_name_that_becomes_too_long_is_refused() -> None:
    with pytest.raises(BadName, match="shorter name"):
        Renaming("a.**", f"{'b' * 100}.**").target_of("a." + "c" * 200)
