"""Comparing answers: what may differ, what may not, and who is wrong."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.continuity.answer import Answer, Head, body_digest
from holdfast.continuity.domain import ComparisonRules
from holdfast.continuity.machines.comparison import (
    NORMALISED_BYTES_MAX,
    Verdict,
    check_rules,
    comparison_digest,
    judge,
    raw_comparison_digest,
)
from holdfast.errors import BadSetting

NO_RULES = ComparisonRules()
JSON = [(b"content-type", b"application/json; charset=utf-8")]


def _answer(body: bytes = b"", headers: list[tuple[bytes, bytes]] | None = None, status: int = 200) -> Answer:
    return Answer(Head(status, headers or [], len(body)), body)


def _json(value: Any, *headers: tuple[bytes, bytes]) -> Answer:
    return _answer(msgspec.json.encode(value), [*JSON, *headers])


def _are_alike(one: Answer, other: Answer, rules: ComparisonRules = NO_RULES) -> bool:
    return comparison_digest(one, rules) == comparison_digest(other, rules)


# --- headers and status --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [b"date", b"server", b"connection", b"keep-alive", b"transfer-encoding"])
def test_date_server_and_hop_headers_are_not_compared(name: bytes) -> None:
    assert _are_alike(_answer(b"x", [(name, b"1")]), _answer(b"x", [(name, b"2")]))
    assert _are_alike(_answer(b"x", [(name, b"1")]), _answer(b"x"))


def test_a_header_that_connection_names_is_not_compared() -> None:
    one, other = (_answer(b"x", [(b"connection", b"X-Hop, close"), (b"x-hop", value)]) for value in (b"1", b"2"))

    assert _are_alike(one, other)


def test_other_headers_the_status_and_the_body_are_compared() -> None:
    plain = _answer(b"x", [(b"etag", b"1")])

    assert not _are_alike(plain, _answer(b"x", [(b"etag", b"2")]))
    assert not _are_alike(plain, _answer(b"x", [(b"etag", b"1")], 201))
    assert not _are_alike(plain, _answer(b"y", [(b"etag", b"1")]))


def test_a_header_that_a_rule_names_is_not_compared() -> None:
    one, other = (_answer(b"x", [(b"x-request-id", value)]) for value in (b"1", b"2"))

    assert _are_alike(one, other, ComparisonRules(headers=("X-Request-Id",)))


def test_headers_are_compared_in_any_order_and_values_of_one_name_in_theirs() -> None:
    a, b, cookie_1, cookie_2 = (b"a", b"1"), (b"b", b"2"), (b"set-cookie", b"1"), (b"set-cookie", b"2")

    assert _are_alike(_answer(b"", [a, b]), _answer(b"", [b, a]))
    assert not _are_alike(_answer(b"", [cookie_1, cookie_2]), _answer(b"", [cookie_2, cookie_1]))


def test_bytes_do_not_move_between_name_and_value_unnoticed() -> None:
    assert not _are_alike(_answer(b"", [(b"ab", b"c")]), _answer(b"", [(b"a", b"bc")]))


# --- JSON ----------------------------------------------------------------------------------------------------------------


def test_json_is_compared_by_value_and_its_length_is_not() -> None:
    one = _answer(b'{"a": 1, "b": [true, null]}', [*JSON, (b"content-length", b"27")])
    other = _answer(b'{"b":[true,null],"a":1}', [*JSON, (b"content-length", b"23")])

    assert _are_alike(one, other)
    assert not _are_alike(one, _answer(b'{"b":[null,true],"a":1}', JSON))


def test_a_body_that_is_no_json_is_compared_byte_for_byte_whatever_its_type_says() -> None:
    assert not _are_alike(_answer(b"{broken ", JSON), _answer(b"{broken", JSON))
    assert not _are_alike(_answer(b"[" * 100_000, JSON), _answer(b"[" * 100_001, JSON))
    assert not _are_alike(_answer(b'{"a": 1}'), _answer(b'{"a":1}'))


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("$.a.b", {"a": {"b": 1, "c": 0}}, {"a": {"b": 2, "c": 0}}),
        ("$.a.b", {"a": {"b": 1}}, {"a": {}}),
        ("$.items[*].created", {"items": [{"created": 1, "n": 1}, {"created": 2, "n": 2}]}, {"items": [{"n": 1}, {"n": 2}]}),
        ("$.items[1]", {"items": [1, 2]}, {"items": [1, 3]}),
        ("$..id", {"id": 1, "x": [{"id": {"id": 3}}]}, {"id": 2, "x": [{"id": 5}]}),
        ("$..x.id", {"x": {"id": 1}}, {"x": {"id": 2}}),
        ("$['a b']", {"a b": 1}, {"a b": 2}),
    ],
)
def test_values_that_a_path_names_are_not_compared_and_no_others_are_spared(path: str, one: Any, other: Any) -> None:
    rules = ComparisonRules(json=(path,))

    assert not _are_alike(_json(one), _json(other))
    assert _are_alike(_json(one), _json(other), rules)
    assert not _are_alike(_json({"more": 1, **one}), _json({"more": 2, **other}), rules)


def test_a_path_that_leads_nowhere_means_nothing() -> None:
    rules = ComparisonRules(json=("$.a.b[3].c", "$[*].x"))

    assert not _are_alike(_json({"a": "text"}), _json({"a": [1]}), rules)


def test_numbers_may_differ_by_much_less_than_the_tolerance() -> None:
    rules = ComparisonRules(tolerance=0.01)

    assert _are_alike(_json({"a": [1.0002, True]}), _json({"a": [1.0001, True]}), rules)
    assert not _are_alike(_json({"a": 1.02}), _json({"a": 1.0}), rules)
    assert not _are_alike(_json({"a": True}), _json({"a": 1}), rules)
    assert not _are_alike(_json({"a": 10**400}), _json({"a": 10**401}), rules)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(_VALUES, _VALUES)
def test_two_documents_are_alike_only_if_they_are_equal(one: Any, other: Any) -> None:
    is_equal = msgspec.json.encode(one, order="deterministic") == msgspec.json.encode(other, order="deterministic")

    assert _are_alike(_json(one), _json(other)) == is_equal


# --- text, functions, large bodies ---------------------------------------------------------------------------------------


def test_parts_of_a_text_that_match_are_not_compared() -> None:
    rules = ComparisonRules(text=(r"token=[0-9a-f]+", r"\d\d:\d\d"))
    html = [(b"content-type", b"text/html")]

    assert _are_alike(_answer(b"<a token=1f> 10:05", html), _answer(b"<a token=2ab> 11:00", html), rules)
    assert not _are_alike(_answer(b"<a token=1f> 10:05", html), _answer(b"<b token=1f> 10:05", html), rules)
    assert not _are_alike(_answer(b"<a token=1f>", html), _answer(b"<a >", html), rules)


def test_expressions_are_not_tried_on_pictures() -> None:
    png = [(b"content-type", b"image/png")]

    assert not _are_alike(_answer(b"\x891", png), _answer(b"\x892", png), ComparisonRules(text=(r"\d",)))


def test_a_function_gives_the_bytes_that_are_compared() -> None:
    rules = ComparisonRules(function="shop.compare:first_byte")

    digests = {
        comparison_digest(_answer(body, status=status), rules, lambda answer: answer.body[:1])
        for body, status in ((b"ab", 200), (b"ac", 201))
    }

    assert digests == {body_digest(b"a")}
    with pytest.raises(BadSetting, match="must be found"):
        comparison_digest(_answer(), rules)


def test_a_body_too_large_to_be_held_is_compared_by_its_own_digest() -> None:
    body = b"[" + b"1," * (NORMALISED_BYTES_MAX // 2) + b"1]"
    answer = _answer(body, JSON)

    assert comparison_digest(answer, NO_RULES) == raw_comparison_digest(answer.head, body_digest(body), NO_RULES)


@pytest.mark.parametrize(
    "rules",
    [
        ComparisonRules(json=("a.b",)),
        ComparisonRules(json=("$",)),
        ComparisonRules(json=("$.a[",)),
        ComparisonRules(text=("(",)),
        ComparisonRules(text=(r"(?=x)",)),
        ComparisonRules(tolerance=-1.0),
        ComparisonRules(tolerance=float("nan")),
        ComparisonRules(function="no function"),
        ComparisonRules(function="module_alone"),
    ],
)
def test_rules_that_cannot_be_used_are_refused(rules: ComparisonRules) -> None:
    with pytest.raises(BadSetting):
        check_rules(rules)


# --- who is wrong (26) ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "expected", "verdict"),
    [
        ("", "ab", Verdict("agree")),
        ("a1", "abc", Verdict("agree")),
        ("a1 b1 c1", "abc", Verdict("agree")),
        ("a1 b1 c2", "abc", Verdict("wrong", ("c",))),
        ("a1 b2", "ab", Verdict("undecided", ("a", "b"))),
        ("a1 b2", "abc", Verdict("undecided", ("a", "b"))),
        ("a1 b2 c3", "abc", Verdict("undecided", ("a", "b", "c"))),
        ("a1 b1 c2", "abcde", Verdict("undecided", ("a", "b", "c"))),
        ("a1 b1 c1 d2 e3", "abcde", Verdict("wrong", ("d", "e"))),
        ("a1 b1 c2 d2", "abcd", Verdict("undecided", ("a", "b", "c", "d"))),
    ],
)
def test_a_majority_of_three_names_who_is_wrong_and_two_name_both(said: str, expected: str, verdict: Verdict) -> None:
    assert judge({each[0]: each[1:].encode() for each in said.split()}, expected) == verdict
