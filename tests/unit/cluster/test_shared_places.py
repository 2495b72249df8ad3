"""The places that nodes share in a bucket: whatever copies are behind, a name has one manager (ADR 27)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cluster.places import EVERYWHERE, Rule
from holdfast.cluster.shared_places import DELETING, GONE, Done, Place, Put, SharedPlaces, decode, encode
from holdfast.errors import BadSetting
from holdfast.event.pattern import Pattern

MANAGERS = ("m1", "m2")


def fixed(name: str) -> str | None:
    return EVERYWHERE if ":" in name else None


def table(*rules: Rule, **known: Place) -> SharedPlaces:
    made = SharedPlaces(MANAGERS, fixed, rules)
    for name, place in known.items():
        made.learn(name, place)
    return made


def test_an_entry_is_read_as_it_was_written() -> None:
    for place in (Place("m1"), Place("m2", DELETING), Place("m2", GONE)):
        assert decode(encode(place), 7) == place._replace(revision=7)


def test_what_an_operator_deleted_by_hand_is_placed_anew_after_that_revision() -> None:
    places = table(orders=decode(b"", 9))

    assert places.find("orders") is None
    assert places.reserving("orders") == Put(Place("m1"), after=9)


def test_an_older_entry_is_no_news() -> None:
    places = table(orders=Place("m1", GONE, revision=5))

    assert not places.learn("orders", Place("m1", revision=4))
    assert places.entry("orders") == Place("m1", GONE, revision=5)


def test_a_new_name_goes_where_a_rule_says_or_to_the_manager_with_the_fewest_that_are_not_gone() -> None:
    known = {"a": Place("m1", revision=1), "b": Place("m1", revision=2), "c": Place("m2", revision=3)}
    gone = {"d": Place("m2", GONE, revision=4), "e": Place("m2", GONE, revision=5)}
    places = table(Rule(Pattern.glob("billing.*"), "m1"), **known, **gone)

    assert places.reserving("new") == Put(Place("m2"), 0)
    assert places.reserving("billing.eu") == Put(Place("m1"), 0)
    assert (places.at("m1"), places.at("m2")) == (["a", "b"], ["c"])


def test_a_rule_for_a_manager_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadSetting, match="there is no manager 'm9'"):
        table(Rule(Pattern.glob("a"), "m9"))


def test_a_name_comes_back_where_it_was() -> None:
    places = table(orders=Place("m2", GONE, revision=8))

    assert places.find("orders") == "m2"
    assert places.reserving("orders") == Put(Place("m2"), after=8)


def test_who_creates_a_placed_name_takes_a_revision_of_its_own() -> None:
    places = table(orders=Place("m2", revision=8))

    assert places.reserving("orders") == Done(Place("m2", revision=8))
    assert places.reserving("orders", is_created=True) == Put(Place("m2"), after=8)


def test_whoever_uses_a_name_that_is_being_deleted_sets_it_back_first() -> None:
    found = Place("m2", DELETING, 8)
    places = table(orders=found)

    assert places.reserving("orders") == Put(Place("m2"), after=8)
    assert places.deleting("orders") == Put(Place("m2", DELETING), after=8)
    assert places.deleted(found) == Put(Place("m2", GONE), after=8)
    assert places.kept(found) == Put(Place("m2"), after=8)


def test_a_deletion_begins_in_the_bucket() -> None:
    places = table(orders=Place("m1", revision=3), old=Place("m1", GONE, revision=4))

    assert places.deleting("orders") == Put(Place("m1", DELETING), after=3)
    assert places.deleting("old") is None
    assert places.deleting("unknown") is None


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["a", "b"]), st.booleans()), max_size=40))
def test_nodes_whose_copies_are_behind_agree_on_one_manager_for_each_name(steps: list[tuple[int, str, bool]]) -> None:
    """Each step is a node that reserves a name; before it, it may or may not have read the bucket."""
    bucket: dict[str, Place] = {}
    nodes = [table() for _ in range(3)]
    placed: dict[str, str] = {}
    revision = 0
    for number, name, is_read in steps:
        node = nodes[number]
        if is_read:
            for each, place in bucket.items():
                node.learn(each, place)
        while not isinstance(step := node.reserving(name), Done):
            assert isinstance(step, Put)
            there = bucket.get(name)
            if (there.revision if there is not None else 0) == step.after:
                revision += 1
                bucket[name] = step.place._replace(revision=revision)
            node.learn(name, bucket[name])
        assert placed.setdefault(name, step.place.manager) == step.place.manager
