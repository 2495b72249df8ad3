"""Patterns over the names of destinations (requirement B15)."""

from __future__ import annotations

import time
from typing import Any

import pytest

from holdfast.errors import BadPattern
from holdfast.event.pattern import LENGTH_MAX, Pattern


@pytest.mark.parametrize(
    ("text", "matched", "passed_over"),
    [
        ("orders", ["orders"], ["order", "orders.eu", "Orders", ""]),
        ("orders.*", ["orders.new"], ["orders.", "orders..new", "orders", "orders.eu.new", "orders.eu/new", "ordersx"]),
        ("orders/*", ["orders/new"], ["orders.new"]),
        ("*", ["orders"], ["orders.new", "orders/new"]),
        ("*.new", ["orders.new"], [".new", "new", "orders.eu.new"]),
        ("eu-*.new", ["eu-west.new", "eu-.new"], ["us-west.new", "eu-west.x.new"]),
        ("*-west", ["eu-west"], ["eu-west-1", "a.b-west"]),
        ("plant/?", ["plant/7"], ["plant/77", "plant/", "plant//"]),
        ("a.??.b", ["a.xy.b"], ["a.x.b", "a.x..b"]),
        (
            "orders.>",
            ["orders.new", "orders.eu.new", "orders.eu/new", "orders..new"],
            ["orders", "orders.", "orders..", "orders/new", "ordersx"],
        ),
        (">", ["orders", "orders.new"], []),
        ("*.>", ["a.b", "a.b.c"], ["a"]),
        ("**", ["orders", "orders.eu/new"], []),
        ("orders.**", ["orders", "orders.", "orders.new", "orders.eu.new"], ["ordersnew", "orders/new"]),
        ("**.new", ["new", "orders.new", "orders/eu.new"], ["renew", "orders/new", "new.x"]),
        ("a.**.z", ["a.z", "a.b.z", "a.b/c.z"], ["az", "a.z.b", "a.bz", "a/b.z"]),
        ("a.**.m.**.z", ["a.m.z", "a.x.m.y.z"], ["a.z", "a.m"]),
        ("a.**.**", ["a", "a.b", "a.b.c"], ["ab"]),
        ("a.**.>", ["a.b", "a.b.c"], ["a"]),
    ],
)
def test_b15_a_wildcard_stands_for_a_word_a_part_of_one_or_any_number(
    text: str, matched: list[str], passed_over: list[str]
) -> None:
    pattern = Pattern.glob(text)

    assert [name for name in matched if not pattern.matches(name)] == []
    assert [name for name in passed_over if pattern.matches(name)] == []


@pytest.mark.parametrize(
    ("text", "matched", "passed_over"),
    [
        (r"orders\.(eu|us)\..*", ["orders.eu.new", "orders.us."], ["orders.ca.new", "my.orders.eu.new"]),
        ("orders", ["orders"], ["orders.new", "reorders"]),
        ("a|ab", ["a", "ab"], ["abc"]),
        ("(?i)orders", ["ORDERS"], ["order"]),
        (r"[a-z]{2}-\d+", ["eu-17"], ["eu-", "eur-17"]),
        (".*", ["orders", "plant/7/alarms"], []),
    ],
)
def test_b15_a_regular_expression_must_fit_the_whole_name(text: str, matched: list[str], passed_over: list[str]) -> None:
    pattern = Pattern.regex(text)

    assert [name for name in matched if not pattern.matches(name)] == []
    assert [name for name in passed_over if pattern.matches(name)] == []


@pytest.mark.parametrize(
    "pattern",
    [Pattern.glob("**"), Pattern.glob(">"), Pattern.glob("*"), Pattern.glob("?LOG"), Pattern.regex(".*"), Pattern.regex("_a|.*")],
)
def test_b16_who_asks_for_everything_does_not_get_what_is_holdfast_s_own(pattern: Pattern) -> None:
    assert not pattern.matches("_LOG")
    assert pattern.matches("xLOG")


@pytest.mark.parametrize("pattern", [Pattern.glob("_*"), Pattern.glob("_LOG"), Pattern.glob("_LO?"), Pattern.regex("_L.*")])
def test_b16_a_pattern_that_begins_with_an_underscore_matches_what_is_holdfast_s_own(pattern: Pattern) -> None:
    assert pattern.matches("_LOG")
    assert not pattern.matches("LOG")


def test_a_plain_name_is_known_as_one() -> None:
    assert Pattern.glob("plant/7.a_b-c").is_literal
    assert not any(Pattern.glob(text).is_literal for text in ("a.*", "a?", "a.>", "**"))
    assert not Pattern.regex("orders").is_literal


def test_patterns_are_equal_when_kind_and_text_are() -> None:
    assert Pattern.glob("a.*") == Pattern.glob("a.*")
    assert len({Pattern.glob("a"), Pattern.glob("a"), Pattern.regex("a")}) == 2
    assert (Pattern.regex("a+").kind, Pattern.regex("a+").text, str(Pattern.glob("a.>"))) == ("regex", "a+", "a.>")


def test_what_cannot_be_a_name_is_not_matched_and_no_error() -> None:
    for pattern in (Pattern.glob("**"), Pattern.glob("a"), Pattern.regex(".*")):
        assert [pattern.matches(name) for name in ("é", "\ud800", "a😀")] == [False] * 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("two words", "contains ' '"),
        ("a{b,c}", "contains '{'"),
        ("größe.*", "contains 'ö'"),
        ("a\n", r"contains '\n'"),
        ("a**", "** stands for whole words"),
        ("a.***", "** stands for whole words"),
        ("a.**b.c", "** stands for whole words"),
        (">.a", "> stands for all further words"),
        ("a>", "> stands for all further words"),
        ("a.>>", "> stands for all further words"),
        ("a" * (LENGTH_MAX + 1), f"at most {LENGTH_MAX} characters"),
    ],
)
def test_a_wildcard_that_cannot_be_understood_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(BadPattern) as refused:
        Pattern.glob(text)

    assert said in refused.value.sentence


@pytest.mark.parametrize("text", ["orders.#", "orders.+", "#", "+/alarms", "or#ers.**"])
def test_b15_the_wildcards_of_mqtt_and_amqp_are_refused_and_ours_are_named(text: str) -> None:
    with pytest.raises(BadPattern) as refused:
        Pattern.glob(text)

    assert "write ** for any number of words and * for one word" in refused.value.sentence


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("[a", "missing ]"),
        ("(a", "missing )"),
        ("*a", "no argument for repetition operator"),
        ("a(?=b)", "look-ahead, look-behind and atomic groups are not available"),
        ("(?<!a)b", "look-ahead, look-behind and atomic groups are not available"),
        (r"(a)\1", "references back are not available"),
        (r"a\q", r"invalid escape sequence: \q"),
        ("a{2000}", "repetitions go up to 1000"),
        ("((a{100}){100}){100}", "repetitions go up to 1000"),
        (r"\pL{500}" * 20, "too large once compiled"),
        ("a\ud800", "half a character"),
        ("a" * (LENGTH_MAX + 1), f"at most {LENGTH_MAX} characters"),
    ],
)
def test_a_regular_expression_that_is_not_available_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(BadPattern) as refused:
        Pattern.regex(text)

    assert said in refused.value.sentence


@pytest.mark.parametrize("text", [None, 5, b"a"])
def test_what_is_not_text_is_refused(text: Any) -> None:
    for made in (Pattern.glob, Pattern.regex):
        with pytest.raises(BadPattern, match="is text, not"):
            made(text)


@pytest.mark.parametrize("text", ["*a" * 512, "?" * LENGTH_MAX, "*." * 511 + "a", "**.a." * 204 + "a", "**/" * 341])
def test_every_wildcard_of_the_full_length_is_taken(text: str) -> None:
    assert not Pattern.glob(text).matches("b" * 255)


@pytest.mark.parametrize(
    "pattern", [Pattern.glob("*a" * 500), Pattern.glob("**.a." * 200 + "b"), Pattern.regex("(a*)*" * 50 + "b")]
)
def test_rule_12_no_pattern_and_name_take_long(pattern: Pattern) -> None:
    began = time.thread_time()

    assert not pattern.matches("a." * 127)
    assert not pattern.matches("a" * 255)

    assert time.thread_time() - began < 10  # seconds of work; it takes a hundredth
