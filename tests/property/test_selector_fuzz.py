"""Whatever text arrives as a selector, it is taken or refused by a BadSelector that shows a place, soon (requirement B5)."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import BadSelector
from holdfast.event.event import Head, PropertyValue, encode_head
from holdfast.event.selector.selector import Selector, View

TOKENS = [
    "AND", "or", "NOT", "between", "IN", "LIKE", "escape", "IS", "null", "TRUE", "false", "a", "amount", "type", "priority",
    "JMSType", "JMSx",
    "(", ")", "(", ")", ",", "+", "-", "*", "/", "=", "<>", "<", "<=", ">", ">=", "'x'", "'%_'", "'!'", "''", "1", "0x1F",
    "2.5", "1e400", "'", '"', "!", "\\", "\n", "\x00", "é", "\ud800", "{0}", "__import__('os')",
]  # fmt: skip
RIGHT = [
    "amount > 100 AND region = 'eu'",
    "type LIKE 'order.%' ESCAPE '!' AND NOT (status IN ('draft', 'void') OR a.b)",
    "price * quantity BETWEEN 1000 AND 5000 OR is_urgent",
    "subject IS NOT NULL AND time >= 1767225600000",
]
PROPERTIES: list[dict[str, PropertyValue]] = [
    {},
    {"a": 1, "amount": "x"},
    {"a": True, "amount": float("nan")},
    {"a": "x%", "amount": 2**63 - 1},
]
EVENTS = [View(encode_head(Head(properties=properties or None))) for properties in PROPERTIES]


def check(text: str) -> bool:
    """Whether it was taken; anything but a selector that answers or a BadSelector with a place is raised."""
    try:
        selector = Selector(text)
    except BadSelector as problem:
        lines = text.split("\n")
        assert 1 <= problem.fields["line"] <= len(lines)
        assert 1 <= problem.fields["column"] <= len(lines[problem.fields["line"] - 1]) + 1
        assert problem.sentence.endswith("^")
        return False
    assert all(selector.matches(view) in (True, False) for view in EVENTS)
    return True


@given(st.text(max_size=60))
def test_any_text_is_taken_or_refused(text: str) -> None:
    check(text)


@given(st.binary(max_size=60))
def test_any_bytes_read_as_text_are_taken_or_refused(data: bytes) -> None:
    check(data.decode("latin-1"))
    check(data.decode("utf-8", errors="surrogateescape"))


def test_any_tokens_in_any_order_are_taken_or_refused() -> None:
    dice = Random(1)

    taken = sum(check(" ".join(dice.choices(TOKENS, k=dice.randint(1, 9)))) for _ in range(4_000))

    assert 0 < taken < 4_000


def test_right_selectors_with_a_few_characters_changed_are_taken_or_refused() -> None:
    dice = Random(2)

    taken = 0
    for _ in range(3_000):
        letters = list(dice.choice(RIGHT))
        for _ in range(dice.randint(1, 3)):
            place = dice.randrange(len(letters))
            letters[place : place + dice.randint(0, 2)] = dice.choice(["", " ", *TOKENS, letters[0]])
        taken += check("".join(letters))

    assert 0 < taken < 3_000


@pytest.mark.parametrize("token", TOKENS)
def test_one_token_as_often_as_it_fits_is_taken_or_refused_within_a_second(token: str) -> None:
    for text in (f"{token} " * (4_096 // (len(token) + 1)), token * (4_096 // len(token)), ("a = 1 AND " + token) * 20):
        began = time.thread_time()
        check(text[:4_096])
        assert time.thread_time() - began < 10  # seconds of work


@pytest.mark.parametrize("pattern", ["%a" * 1_000 + "%b_", "_%" * 1_000 + "b", "a_" * 1_000 + "%b", "%" + "_a" * 49 + "b%"])
def test_no_pattern_and_text_make_like_slow(pattern: str) -> None:
    selector = Selector(f"a LIKE '{pattern}'")
    began = time.thread_time()

    is_match = selector.matches(View(encode_head(Head(properties={"a": "a" * 300_000}))))

    assert not is_match
    assert time.thread_time() - began < 20  # seconds of work


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ptixsa") | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(ANYTHING)
def test_any_bytes_as_a_head_are_answered_by_match_or_no_match(head: Any) -> None:
    encoded = msgspec.msgpack.encode(head)
    for text in (
        "a > 1 OR NOT (a > 1) OR a IS NULL",
        "type = 'x' OR expires_at > 1 OR time / a > 0",
        "id <> 'a' AND source <> ''",
    ):
        for data in (encoded, encoded[:-1], encoded + b"\x00"):
            assert Selector(text).matches(View(data)) in (True, False)


@given(st.binary(max_size=40))
def test_any_garbage_as_a_head_is_answered_by_match_or_no_match(garbage: bytes) -> None:
    selector = Selector("a > 1 OR NOT (a > 1) OR a IS NULL OR id <> ''")

    for data in (garbage, b"\x81\xa1p" + garbage, b"\x81\xa1p\x81\xa1a" + garbage, b"\x81\xa1z" + b"\x91" * 5_000 + garbage):
        assert selector.matches(View(data)) in (True, False)
