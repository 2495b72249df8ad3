"""A wrong selector is refused with the reason and the place (requirement B5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.errors import BadSelector
from holdfast.event.event import Head, encode_head
from holdfast.event.selector.like import SOUGHT_MAX
from holdfast.event.selector.parser import LENGTH_MAX, NAMES_MAX, WORDS_MAX
from holdfast.event.selector.selector import Selector, View, parse_optional, stored_selector
from holdfast.event.selector.tree import DEPTH_MAX


def refusal(text: str) -> BadSelector:
    with pytest.raises(BadSelector) as refused:
        Selector(text)
    return refused.value


# The caret in the second line stands under the place that is wrong.
SHOWN = [
    ("amount > 100 region = 'eu'\n             ^", "AND, OR or the end of the selector was expected, not 'region'"),
    ("amount >\n        ^", "TRUE, FALSE or an opening parenthesis was expected, but the selector ends here"),
    ("(a = 1\n      ^", "a closing parenthesis was expected, but the selector ends here"),
    ("a = 1)\n     ^", "the end of the selector was expected, not ')'"),
    ("a == 1\n   ^", "write = once"),
    ("a != 1\n  ^", "write <> for 'not equal'"),
    ('a = "eu"\n    ^', "texts stand in single quotes"),
    ("a = 'eu\n    ^", "no closing quote"),
    ("a && b\n  ^", "write AND"),
    ("a.b = 1\n ^", "names have letters, digits, _ and $"),
    ("größe€ = 1\n     ^", "'€' has no place in a selector; names have letters, digits, _ and $"),
    ("a = “x”\n    ^", "names have letters, digits, _ and $"),
    ("a LIKE 5\n       ^", "a text in single quotes was expected, not '5'"),
    ("a LIKE b\n       ^", "a text in single quotes was expected, not 'b'"),
    ("a IN ()\n      ^", "a number or a text in single quotes was expected, not ')'"),
    ("a IN (1, 'x')\n         ^", "texts only or numbers only"),
    ("a IN ('x' 'y')\n          ^", "a comma or a closing parenthesis was expected"),
    ("a NOT 5\n      ^", "BETWEEN, IN or LIKE was expected"),
    ("a BETWEEN 1 OR 2\n            ^", "AND was expected, not 'OR'"),
    ("a IS 5\n     ^", "NULL was expected, not '5'"),
    ("AND\n^", "a name, a number, a 'text', TRUE, FALSE or an opening parenthesis was expected, not 'AND'"),
    ("a LIKE 'x' ESCAPE 'ab'\n                  ^", "exactly one character"),
    ("a LIKE 'x!y' ESCAPE '!'\n       ^", "before neither %, _ nor itself"),
    ("a LIKE 'x!' ESCAPE '!'\n       ^", "before neither %, _ nor itself"),
    ("a = 08\n    ^", "base 8, which has no digits 8 and 9"),
    ("a = 9223372036854775808\n    ^", "does not fit 64 bits"),
    ("a = + 9223372036854775808\n    ^", "does not fit 64 bits"),
    ("9223372036854775808 > a\n^", "does not fit 64 bits"),
    ("a = 1 - 9223372036854775808\n        ^", "does not fit 64 bits"),
    ("a IN (1, 9223372036854775808)\n         ^", "does not fit 64 bits"),
    ("a BETWEEN 0 AND 9223372036854775808\n                ^", "does not fit 64 bits"),
    ("a = 0x8000000000000000\n    ^", "does not fit 64 bits"),
    ("a = -9223372036854775809\n     ^", "does not fit 64 bits"),
    ("a = 1e999\n    ^", "larger than any of 64 bits"),
    ("'a' + 1 = 2\n^", "this is a text, and + takes numbers only"),
    ("1 + 2 * 'a' = 2\n        ^", "this is a text, and * takes numbers only"),
    ("a + (b = 1) > 2\n     ^", "this is a condition, and + takes numbers only"),
    ("- 'a' = 1\n  ^", "this is a text, and the sign - takes numbers only"),
    ("TRUE > FALSE\n^", "this is true or false, and > takes numbers only"),
    ("a > 'x'\n    ^", "this is a text, and > takes numbers only"),
    ("a BETWEEN 'x' AND 'y'\n          ^", "this is a text, and BETWEEN takes numbers only"),
    ("NOT 5\n    ^", "this is a number, not a condition"),
    ("a = 1 AND 'x'\n          ^", "this is a text, not a condition"),
    ("a = 1 OR priority\n         ^", "this is a number, not a condition"),
    ("5\n^", "this is a number, not a condition"),
    ("a + 1\n^", "this is a number, not a condition"),
    ("subject\n^", "this is a text, not a condition"),
    ("1 = 'a'\n  ^", "a number and a text are never equal nor different"),
    ("JMSDeliveryMode = 2\n                ^", "a text and a number are never equal nor different"),
    ("(a = 1) = TRUE\n ^", "a condition cannot be compared"),
    ("'a' LIKE 'a'\n^", "LIKE takes the name of a property or attribute"),
    ("a + 1 IN (1)\n^", "IN takes the name of a property or attribute"),
    ("5 IS NULL\n^", "IS NULL takes the name of a property or attribute"),
    ("priority LIKE '5%'\n^", "priority is a number, and LIKE asks for a text"),
    ("type IN (1, 2)\n^", "type is a text, and IN asks for a number"),
    ("JMSDestination = 'x'\n^", "JMSDestination cannot be selected by"),
]


@pytest.mark.parametrize(("shown", "said"), SHOWN, ids=[shown.partition("\n")[0] for shown, _ in SHOWN])
def test_b5_a_wrong_selector_is_refused_with_the_reason_and_a_caret_under_the_place(shown: str, said: str) -> None:
    text, caret = shown.split("\n")

    found = refusal(text)

    assert said in found.fields["reason"]
    assert found.sentence == f"selector, line 1, column {len(caret)}: {found.fields['reason']}\n    {text}\n    {caret}"
    assert (found.fields["line"], found.fields["column"]) == (1, len(caret))


def test_of_several_lines_the_wrong_one_is_shown() -> None:
    found = refusal("amount > 100\n\tAND (region = )\nOR is_urgent")

    assert found.sentence.splitlines()[1:] == ["     AND (region = )", "                   ^"]
    assert (found.fields["line"], found.fields["column"]) == (2, 16)


def test_of_a_long_line_the_part_around_the_place_is_shown() -> None:
    found = refusal("a = 1 AND " * 60 + "b ! 2" + " AND a = 1" * 60)

    _, shown, caret = found.sentence.splitlines()
    assert len(shown) < 110
    assert shown[caret.index("^")] == "!"
    assert shown.strip().startswith("…") and shown.endswith("…")


def test_what_an_earlier_release_took_is_taken_where_it_is_stored() -> None:
    text = "a < 9223372036854775808"
    refusal(text)

    stored = stored_selector(text)

    assert stored is not None and stored.matches(View(encode_head(Head(properties={"a": 1}))))
    assert stored_selector("") is None
    with pytest.raises(BadSelector):
        stored_selector("a <").ready()  # type: ignore[union-attr]


def test_an_empty_text_is_refused_where_a_selector_is_wanted() -> None:
    assert "leave it out" in refusal(" \n").sentence


@pytest.mark.parametrize("text", [5, b"a = 1", ["a = 1"]])
def test_what_is_not_text_is_refused(text: Any) -> None:
    for made in (Selector, parse_optional):
        with pytest.raises(BadSelector, match="a selector is text"):
            made(text)


def test_half_a_character_is_refused_where_it_stands() -> None:
    found = refusal("a = '\ud800'")

    assert found.fields["column"] == 6
    assert found.sentence.encode()


# --- limits --------------------------------------------------------------------------------------------------------------


def test_a_selector_of_the_full_length_is_taken_and_a_longer_one_refused() -> None:
    assert Selector("a = 1".ljust(LENGTH_MAX))
    assert f"at most {LENGTH_MAX} characters" in refusal("a = 1".ljust(LENGTH_MAX + 1)).sentence


NESTED: dict[str, tuple[int, Callable[[int], str]]] = {  # how often at most, and so often
    "NOT": (DEPTH_MAX, lambda times: "NOT " * times + "a"),
    "parentheses": (DEPTH_MAX, lambda times: "(" * times + "a" + ")" * times),
    "signs": (DEPTH_MAX - 1, lambda times: "- " * times + "a = 1"),
    "sums": (DEPTH_MAX // 2 - 1, lambda times: "1 + (" * times + "a" + ")" * times + " = 1"),
    "conditions": (DEPTH_MAX // 2, lambda times: "a OR (" * times + "b" + ")" * times),
}


@pytest.mark.parametrize("what", NESTED)
def test_levels_up_to_the_limit_are_taken_and_more_refused_however_many(what: str) -> None:
    most, nested = NESTED[what]

    assert Selector(nested(most)).matches(View(encode_head(Head()))) is False
    for times in (most + 1, 500):
        with pytest.raises(BadSelector, match="levels deep"):
            Selector(nested(times), is_stored=True).ready()


def test_a_stretch_with_underscores_that_must_be_looked_for_is_short() -> None:
    most = "_" * SOUGHT_MAX

    assert Selector(f"a LIKE '_{most}%{most}%{most}_'")
    assert f"more than {SOUGHT_MAX} characters with _" in refusal(f"a LIKE '%_{most}%'").sentence


@pytest.mark.parametrize(
    "text", ["NOT " * 1_020 + "a", "(" * 4_000, "-" * 4_000 + "1 = 1", "a = " + "(" * 2_000 + "1" + ")" * 2_000]
)
def test_thousands_of_levels_are_refused_and_nothing_else_happens(text: str) -> None:
    refusal(text)


@pytest.mark.parametrize("text", ["a" + " AND a" * 680, "a = 1" + " + 1" * 1_000, "a" + " OR a" * 800, "a = 1" + "*1/1" * 1_000])
def test_a_long_selector_is_not_a_deep_one(text: str) -> None:
    assert Selector(text, is_stored=True).ready()


def test_a_selector_has_so_many_words_and_the_next_one_is_refused_with_its_place() -> None:
    most = "a" + " OR a" * (WORDS_MAX // 2 - 1) + " OR"

    found = refusal(f"{most} a")

    assert f"at most {WORDS_MAX} words and signs" in found.sentence
    assert found.fields["column"] == len(most) + 2
    assert Selector(most.removesuffix(" OR"))


def test_a_selector_asks_for_so_many_properties_and_the_next_one_is_refused_with_its_place() -> None:
    most = " OR ".join(f"a{number}" for number in range(NAMES_MAX))

    assert f"at most {NAMES_MAX} different" in refusal(f"{most} OR b").sentence
    assert refusal(f"{most} OR b").fields["column"] == len(f"{most} OR b")
    assert Selector(f"{most} OR a1")
