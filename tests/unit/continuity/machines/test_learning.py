"""Learning: the least rules under which answers of one version are alike."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.continuity.answer import Answer, Head
from holdfast.continuity.domain import ComparisonRules
from holdfast.continuity.machines.comparison import comparison_digest
from holdfast.continuity.machines.learning import PATHS_MAX, propose

NO_RULES = ComparisonRules()


def _answer(value: Any, status: int = 200, **headers: str) -> Answer:
    body = msgspec.json.encode(value)
    named = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    return Answer(Head(status, [(b"content-type", b"application/json"), *named], len(body)), body)


def test_answers_that_are_alike_need_no_rules() -> None:
    proposal = propose(NO_RULES, [[_answer({"a": 1}, date="1"), _answer({"a": 1}, date="2")]])

    assert (proposal.rules, proposal.differences, proposal.requests, proposal.unequal) == (NO_RULES, (), 1, 0)


def test_headers_and_values_that_differ_are_proposed_with_how_often_they_did() -> None:
    requests = [
        [_answer({"id": 1, "total": 5}, etag="x"), _answer({"id": 2, "total": 5}, etag="y")],
        [_answer({"id": 3, "total": 6}, etag="z"), _answer({"id": 4, "total": 6}, etag="z")],
    ]

    proposal = propose(ComparisonRules(headers=("x-old",)), requests)

    assert proposal.rules == ComparisonRules(headers=("x-old", "etag"), json=("$.id",))
    assert [(each.where, each.count, each.example) for each in proposal.differences] == [
        ("json $.id", 2, ("1", "2")),
        ("header etag", 1, ("x", "y")),
    ]
    assert proposal.unequal == 0


@pytest.mark.parametrize(
    ("one", "other", "paths"),
    [
        ({"a": {"b": 1, "c": 1}}, {"a": {"b": 2, "c": 1}}, ("$.a.b",)),
        ({"items": [{"t": 1}, {"t": 2}]}, {"items": [{"t": 3}, {"t": 4}]}, ("$.items[*].t",)),
        ({"items": [1]}, {"items": [1, 2]}, ("$.items",)),
        ({"a": 1}, {"a": 1, "b": 2}, ("$.b",)),
        ({"a": 1}, {"a": "1"}, ("$.a",)),
        ({"a": 1}, {"a": True}, ("$.a",)),
        ({"a b": {"c.d": 1}}, {"a b": {"c.d": 2}}, ("$.a b['c.d']",)),
        ({"a": {"x": 1}, "z": 1}, {"a": 7, "z": 1}, ("$.a",)),
    ],
)
def test_the_smallest_value_that_differs_is_proposed(one: Any, other: Any, paths: tuple[str, ...]) -> None:
    proposal = propose(NO_RULES, [[_answer(one), _answer(other)]])

    assert proposal.rules.json == paths and proposal.unequal == 0


def test_a_path_that_another_covers_is_not_proposed() -> None:
    requests = [[_answer({"a": {"b": 1}}), _answer({"a": {"b": 2}})], [_answer({"a": {"b": 1}}), _answer({"a": None})]]

    assert propose(NO_RULES, requests).rules.json == ("$.a",)


def test_where_too_many_values_differ_the_object_that_holds_them_is_proposed() -> None:
    one, other = ({"map": {f"k{number}": own for number in range(PATHS_MAX + 1)}} for own in (1, 2))

    assert propose(NO_RULES, [[_answer(one), _answer(other)]]).rules.json == ("$.map",)


def test_numbers_that_are_very_close_ask_for_a_tolerance() -> None:
    proposal = propose(NO_RULES, [[_answer({"a": 0.1 + 0.2}), _answer({"a": 0.3})]])

    assert proposal.rules.json == () and 0 < proposal.rules.tolerance < 1e-9
    assert proposal.unequal == 0


def test_another_status_has_no_rule_and_is_told() -> None:
    proposal = propose(NO_RULES, [[_answer({"a": 1}), _answer({"error": 1}, 500)]])

    assert proposal.rules == NO_RULES and proposal.unequal == 1
    assert [each.where for each in proposal.differences] == ["status"]


def test_a_text_that_differs_has_no_rule_and_is_told() -> None:
    one, other = (Answer(Head(200, [(b"content-type", b"text/html")]), body) for body in (b"a", b"b"))

    proposal = propose(NO_RULES, [[one, other]])

    assert proposal.rules == NO_RULES and [each.where for each in proposal.differences] == ["body"]


def test_differences_that_the_rules_allow_already_are_not_proposed() -> None:
    rules = ComparisonRules(json=("$.id",), text=(r"\d+",), tolerance=0.1)
    page_1, page_2 = (Answer(Head(200, [(b"content-type", b"text/html"), (b"etag", text)]), text) for text in (b"1", b"2"))

    proposal = propose(
        rules, [[_answer({"id": 1, "x": 1.01}, etag="x"), _answer({"id": 2, "x": 1.02}, etag="y")], [page_1, page_2]]
    )

    assert [(each.where, each.count) for each in proposal.differences] == [("header etag", 2)]


def test_three_servers_are_compared_with_each_other_and_counted_once() -> None:
    proposal = propose(NO_RULES, [[_answer({"id": own}) for own in (1, 2, 3)]])

    assert [(each.where, each.count) for each in proposal.differences] == [("json $.id", 1)]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("ab'.", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab'.\"", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("xyz"), _VALUES), st.dictionaries(st.sampled_from("xyz"), _VALUES))
def test_under_the_proposed_rules_any_two_objects_are_alike_and_others_are_not(one: Any, other: Any) -> None:
    proposal = propose(NO_RULES, [[_answer({"kept": 1, **one}), _answer({"kept": 1, **other})]])

    assert proposal.unequal == 0
    digests = {comparison_digest(_answer({"kept": kept, **one}), proposal.rules) for kept in (1, 2)}
    assert len(digests) == 2, "nothing that was alike is left out"
