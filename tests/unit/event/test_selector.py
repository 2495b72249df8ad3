"""Selectors: which events match a condition (requirement B5; the sections are those of JMS 2.0)."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from holdfast.event.batch import Batch, encode
from holdfast.event.event import Head, check_properties, encode_head
from holdfast.event.identifier import to_text
from holdfast.event.selector.selector import Selector, View, parse_optional

# Three conditions whose values are known: TRUE, FALSE and, since no event here has `absent`, unknown.
TRUTHS: dict[bool | None, str] = {True: "1 = 1", False: "1 = 2", None: "absent = 1"}


def view(**properties: Any) -> View:
    return View(encode_head(Head(properties=properties)))


def truth(text: str, **properties: Any) -> bool | None:
    """TRUE, FALSE or (None) unknown: which of the condition and its negation matches."""
    seen = view(**properties)
    is_true, is_false = Selector(text).matches(seen), Selector(f"NOT ({text})").matches(seen)
    assert not (is_true and is_false)
    return True if is_true else False if is_false else None


# --- three-valued logic (3.8.1.2, tables 3-4 to 3-6) ---------------------------------------------------------------------

AND = {
    (True, True): True, (True, False): False, (True, None): None,
    (False, True): False, (False, False): False, (False, None): False,
    (None, True): None, (None, False): False, (None, None): None,
}  # fmt: skip
OR = {
    (True, True): True, (True, False): True, (True, None): True,
    (False, True): True, (False, False): False, (False, None): None,
    (None, True): True, (None, False): None, (None, None): None,
}  # fmt: skip
NOT = {True: False, False: True, None: None}


@pytest.mark.parametrize(("left", "right"), list(product(TRUTHS, TRUTHS)))
def test_b5_and_and_or_follow_the_truth_tables_of_the_specification(left: bool | None, right: bool | None) -> None:
    assert truth(f"{TRUTHS[left]} AND {TRUTHS[right]}") is AND[left, right]
    assert truth(f"{TRUTHS[left]} OR {TRUTHS[right]}") is OR[left, right]


@pytest.mark.parametrize("value", TRUTHS)
def test_b5_not_follows_the_truth_table_of_the_specification(value: bool | None) -> None:
    assert truth(TRUTHS[value]) is value
    assert truth(f"NOT {TRUTHS[value]}") is NOT[value]
    assert truth(f"NOT NOT {TRUTHS[value]}") is value


@pytest.mark.parametrize(
    "condition",
    [
        *(f"absent {operator} 1" for operator in ("=", "<>", "<", "<=", ">", ">=")),
        *(f"1 {operator} absent" for operator in ("=", "<>", "<", "<=", ">", ">=")),
        *(f"absent {operator} 1 = 1" for operator in "+-*/"),
        *(f"1 {operator} absent = 1" for operator in "+-*/"),
        "absent = 'a'", "absent <> 'a'", "absent = TRUE", "absent <> FALSE", "absent", "absent = missing", "-absent = 1",
        "+absent = 1", "absent BETWEEN 1 AND 2", "absent NOT BETWEEN 1 AND 2", "1 BETWEEN absent AND 2", "absent IN ('a')",
        "absent NOT IN ('a')", "absent IN (1)", "absent LIKE 'a%'", "absent NOT LIKE '%'", "subject = 'a'", "expires_at > 0",
        "absent + 1 + 2 = 3",
    ],
)  # fmt: skip
def test_b5_whatever_is_asked_of_a_value_that_is_not_there_is_unknown(condition: str) -> None:
    assert truth(condition) is None


def test_b5_a_property_that_is_null_is_as_if_it_were_absent() -> None:
    assert truth("a = 1", a=None) is None
    assert truth("a IS NULL", a=None) is True


def test_b5_is_null_is_never_unknown() -> None:
    assert truth("a IS NULL") is True
    assert truth("a IS NOT NULL") is False
    assert truth("a IS NULL", a="") is False
    assert truth("a IS NOT NULL", a=False) is True


def test_b5_the_bounds_of_between_decide_even_when_one_of_them_is_unknown() -> None:
    assert truth("5 BETWEEN absent AND 4") is False
    assert truth("5 NOT BETWEEN absent AND 4") is True


# --- the specification's examples ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "properties", "expected"),
    [
        ("JMSType = 'event' AND color = 'blue' AND weight > 2500", {"color": "blue", "weight": 2501}, True),
        ("JMSType = 'event' AND color = 'blue' AND weight > 2500", {"color": "blue", "weight": 2500}, False),
        ("age BETWEEN 15 AND 19", {"age": 15}, True),
        ("age BETWEEN 15 AND 19", {"age": 20}, False),
        ("age NOT BETWEEN 15 AND 19", {"age": 20}, True),
        ("age NOT BETWEEN 15 AND 19", {"age": 19}, False),
        ("Country IN ('UK', 'US', 'France')", {"Country": "UK"}, True),
        ("Country IN ('UK', 'US', 'France')", {"Country": "Peru"}, False),
        ("Country NOT IN ('UK', 'US', 'France')", {"Country": "Peru"}, True),
        ("Country NOT IN ('UK', 'US', 'France')", {"Country": "UK"}, False),
        ("phone LIKE '12%3'", {"phone": "123"}, True),
        ("phone LIKE '12%3'", {"phone": "12993"}, True),
        ("phone LIKE '12%3'", {"phone": "1234"}, False),
        ("word LIKE 'l_se'", {"word": "lose"}, True),
        ("word LIKE 'l_se'", {"word": "loose"}, False),
        (r"underscored LIKE '\_%' ESCAPE '\'", {"underscored": "_foo"}, True),
        (r"underscored LIKE '\_%' ESCAPE '\'", {"underscored": "bar"}, False),
        ("phone NOT LIKE '12%3'", {"phone": "123"}, False),
        ("phone NOT LIKE '12%3'", {"phone": "1234"}, True),
        ("prop_name IS NULL", {}, True),
        ("prop_name IS NOT NULL", {"prop_name": 1}, True),
    ],
)
def test_b5_the_examples_of_the_specification(condition: str, properties: dict[str, Any], expected: bool) -> None:
    assert truth(condition, **properties) is expected


def test_keywords_come_in_any_case_and_names_do_not() -> None:
    assert truth("a Not iN ('x') aNd B iS NulL or fAlSe", a="y", b=1) is True
    assert truth("Android = 1 AND notable = 2 AND in_ = 3", Android=1, notable=2, in_=3) is True


def test_not_binds_before_and_and_and_before_or() -> None:
    assert truth("TRUE OR FALSE AND FALSE") is True
    assert truth("NOT FALSE OR TRUE") is True
    assert truth("(TRUE OR FALSE) AND FALSE") is False
    assert truth("NOT a = 1 AND b = 2", a=2, b=3) is False


def test_a_name_alone_is_a_condition_that_is_true_when_the_property_is() -> None:
    assert [truth("is_urgent", is_urgent=value) for value in (True, False, 1, "TRUE")] == [True, False, False, False]


def test_a_selector_may_spread_over_lines() -> None:
    assert truth("a = 1\r\n\tAND\n\fb = 2", a=1, b=2) is True


# --- values --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("57", 57), ("-957", -957), ("+62", 62), ("- - 7", 7), ("0", 0), ("00", 0), ("035", 29), ("-0777L", -511),
        ("7L", 7), ("0xFF", 255), ("0X1fl", 31), ("7.", 7.0),
        (".5", 0.5), ("-95.7", -95.7), ("7E3", 7000.0), ("-57.9e-2", -0.579), ("1.5f", 1.5), ("2d", 2.0), ("00.5", 0.5),
        ("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63)), ("'it''s'", "it's"), ("''", ""),
        ("'a\nb'", "a\nb"), ("'é{0}\\n'", "é{0}\\n"), ("TRUE", True), ("false", False),
    ],
)  # fmt: skip
def test_a_literal_means_what_sql_and_java_say(written: str, value: Any) -> None:
    assert truth(f"a = {written}", a=value) is True
    assert truth(f"{written} = a", a=value) is True
    assert truth(f"a <> {written}", a=value) is False


def test_whole_and_floating_numbers_compare_exactly() -> None:
    assert truth("a = 2.0", a=2) is True
    assert truth("a < 9007199254740993", a=9007199254740992.0) is True
    assert truth("100 < a", a=100.5) is True


@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize(("left", "right"), [(1, "1"), (1, True), (0, False), ("TRUE", True)])
def test_b5_unlike_values_are_neither_equal_nor_different_nor_ordered(operator: str, left: Any, right: Any) -> None:
    assert truth(f"a {operator} b", a=left, b=right) is False
    assert truth(f"b {operator} a", a=left, b=right) is False


def test_a_number_is_never_a_truth_even_where_python_takes_them_for_equal() -> None:
    assert truth("a = 1", a=True) is False
    assert truth("a IN (0, 1)", a=False) is None
    assert truth("a = TRUE", a=1) is False
    assert truth("a + 0 = 1", a=True) is None


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
def test_b5_texts_and_truths_have_no_order(operator: str) -> None:
    assert truth(f"a {operator} b", a="a", b="b") is False
    assert truth(f"a {operator} b", a=False, b=True) is False
    assert truth(f"a {operator} 5", a="b") is False


def test_unlike_values_in_between_in_and_like() -> None:
    assert truth("a BETWEEN 1 AND 2", a="1") is False
    assert truth("a NOT BETWEEN 1 AND 2", a="1") is False  # it is `a < 1 OR a > 2`, and neither is so
    assert truth("a NOT LIKE '1'", a=1) is True


@pytest.mark.parametrize(
    ("list_", "values"), [("('a', 'b')", (1, 1.5, 0, True, False, 2**63 - 1)), ("(1, 2.5)", ("a", "1", "", True, False))]
)
def test_b5_in_and_not_in_are_unknown_of_a_value_of_another_kind(list_: str, values: tuple[Any, ...]) -> None:
    assert [truth(f"a IN {list_}", a=value) for value in values] == [None] * len(values)
    assert [truth(f"a NOT IN {list_}", a=value) for value in values] == [None] * len(values)
    assert truth(f"a NOT IN {list_} OR b = 1", a=values[0], b=1) is True
    assert truth(f"a NOT IN {list_} AND b = 1", a=values[0], b=2) is False


@pytest.mark.parametrize("name", ["größe", "Ünit", "цена", "価格", "$é", "मूल्य", "é"])
def test_b5_a_name_may_have_letters_of_any_language(name: str) -> None:
    event = check_properties({name: 7})

    assert truth(f"{name} = 7 AND {name} IN (7)", **event) is True
    assert truth(f"{name} <> 7", **event) is False


def test_a_name_that_is_a_keyword_but_for_a_foreign_letter_is_a_name() -> None:
    assert "ıs".upper() == "IS"

    assert truth("ıs = 1", ıs=1) is True


@pytest.mark.parametrize(
    ("computed", "expected"),
    [
        ("1 + 2 * 3", 7), ("(1 + 2) * 3", 9), ("10 - 4 - 3", 3), ("7 / 2", 3), ("-7 / 2", -3), ("7 / -2", -3), ("7 / 2.0", 3.5),
        ("2 * 3 / 4", 1), ("-(3)", -3), ("1 - -1", 2), ("9223372036854775807 + 1", 2.0**63), ("0.5 * 4", 2),
        ("9223372036854775807 * 9223372036854775807", float(9223372036854775807**2)),
    ],
)  # fmt: skip
def test_arithmetic_is_java_s_but_goes_on_in_floating_numbers_past_64_bits(computed: str, expected: float) -> None:
    assert truth(f"a = {computed}", a=expected) is True


@pytest.mark.parametrize("computed", ["a / 0", "a / 0.0", "a * 1e308 * 10", "b + 1", "b - b", "c * 2", "d + 1", "e + 1", "-d"])
def test_what_is_no_number_any_more_is_null_and_no_error(computed: str) -> None:
    event = {"a": 7, "b": float("inf"), "c": float("nan"), "d": "text", "e": True}

    assert truth(f"{computed} = 1", **event) is None
    assert truth(f"{computed} <> 1", **event) is None


def test_a_property_that_is_not_a_number_by_its_own_account_is_null() -> None:
    nan = float("nan")

    assert [truth(f"a {operator} 1", a=nan) for operator in ("=", "<>", "<", ">=")] == [None] * 4
    assert truth("a = b", a=nan, b=nan) is None
    assert truth("a IS NULL", a=nan) is True
    assert truth("a NOT IN (1)", a=nan) is None
    assert truth("a > 1", a=float("inf")) is True


def test_ever_larger_numbers_take_no_more_room() -> None:
    selector = Selector("a" + " * a" * 250 + " > 0")

    assert selector.matches(view(a=2**62)) is False


@pytest.mark.parametrize(
    ("pattern", "like", "unlike"),
    [
        ("'abc'", ["abc"], ["ab", "abcd", "ABC", ""]),
        ("'%'", ["", "anything\nat all"], []),
        ("''", [""], ["a"]),
        ("'a%'", ["a", "a\nb"], ["ba", ""]),
        ("'%a'", ["a", "\nba"], ["ab"]),
        ("'%a%'", ["a", "bab"], ["b"]),
        ("'a%b'", ["ab", "a\nb"], ["a", "b", "aba"]),
        ("'ab%bc'", ["abbc", "abxbc"], ["abc"]),
        ("'a%b%c'", ["abc", "a-b-c"], ["acb", "ac"]),
        ("'%a%a%'", ["aa", "banana"], ["a"]),
        ("'_'", ["a", "é", "\n", "😀"], ["", "ab"]),
        ("'%__'", ["ab", "abc"], ["a"]),
        ("'a.c'", ["a.c"], ["abc"]),
        ("'[a]_(b)'", ["[a]x(b)"], ["axb"]),
        ("'100!%' ESCAPE '!'", ["100%"], ["1000", "100!"]),
        ("'a!!b!__' ESCAPE '!'", ["a!b_x"], ["a!bxx", "a!!b_x"]),
        ("'''%' ESCAPE ''''", ["%"], ["'x"]),
    ],
)
def test_like_knows_any_characters_one_character_and_escapes(pattern: str, like: list[str], unlike: list[str]) -> None:
    assert [truth(f"a LIKE {pattern}", a=text) for text in like] == [True] * len(like)
    assert [truth(f"a LIKE {pattern}", a=text) for text in unlike] == [False] * len(unlike)


# --- attributes ----------------------------------------------------------------------------------------------------------

FULL = Head(
    type="order.placed", time_us=1_700_000_000_123_999, id="e-1", source="shop", subject="order 7", datacontenttype="text/plain",
    dataschema="urn:x", group="g", correlation_id="c", reply_to="answers", expires_at_ms=1_700_000_060_000,
)  # fmt: skip


@pytest.mark.parametrize(
    "condition",
    [
        "id = 'e-1'", "source = 'shop'", "type = 'order.placed'", "time = 1700000000123", "subject LIKE 'order _'",
        "datacontenttype = 'text/plain'", "dataschema = 'urn:x'", "priority = 7", "group IN ('f', 'g')", "correlation_id = 'c'",
        "reply_to = 'answers'", "expires_at - time = 59877", "JMSMessageID = 'e-1'", "JMSTimestamp = time",
        "JMSCorrelationID = 'c'",
        "JMSType = type", "JMSPriority BETWEEN 7 AND 7", "JMSDeliveryMode = 'PERSISTENT'", "JMSXGroupID = 'g'",
    ],
)  # fmt: skip
def test_b5_an_attribute_is_selected_by_its_name_here_and_in_jms(condition: str) -> None:
    assert Selector(condition).matches(View(encode_head(FULL), source="other", id_number=5, priority=7))


def test_id_and_source_come_from_the_batch_unless_the_event_has_its_own() -> None:
    seen = View(encode_head(Head()), source="shop", id_number=1 << 90)

    assert Selector(f"id = '{to_text(1 << 90)}' AND source = 'shop'").matches(seen)


def test_an_attribute_wins_over_a_property_of_its_name() -> None:
    assert truth("type = 'event'", type="other") is True
    assert truth("priority = 4", priority=9) is True
    assert truth("JMSXDeliveryCount = 2", JMSXDeliveryCount=2) is True


def test_a_head_that_cannot_be_read_matches_nothing() -> None:
    for head in (b"", b"\xc1", b"\x81\xa1p\x93\x01\x02\x03", b"\x81\xa1p\x81\xa1a\x90", b"\x81\xa1p\x81\xa1a\xa1\xff"):
        assert [Selector(text).matches(View(head)) for text in ("a IS NULL", "NOT (a IS NULL)")] == [False, False]


# --- selecting from a batch ----------------------------------------------------------------------------------------------


def _batch(heads: list[Head]) -> Batch:
    encoded = [encode_head(head) for head in heads]
    return Batch(encode(encoded, [b"not json"] * len(heads), source="shop", first_id=1 << 80, priority=6))


def test_b5_select_gives_those_of_the_events_asked_for_that_match_in_that_order() -> None:
    batch = _batch([Head(properties={"amount": amount}) for amount in range(100)])

    found = Selector("amount >= 50 AND priority = 6 AND source = 'shop'").select(batch, [99, 3, 50, 49, 51])

    assert found == [99, 50, 51]


def test_select_knows_each_event_s_own_id() -> None:
    batch = _batch([Head(), Head(id="mine"), Head()])

    assert Selector(f"id IN ('mine', '{to_text((1 << 80) + 2)}')").select(batch, range(3)) == [1, 2]


def test_select_passes_over_a_head_that_cannot_be_read() -> None:
    batch = Batch(encode([b"\xc1", encode_head(Head(properties={"a": 1}))], [b"", b""], source="s", first_id=1))

    assert Selector("a = 1").select(batch, range(2)) == [1]


def test_a_selector_looks_only_at_what_it_names() -> None:
    """What it does not name may be anything: it is skipped where it lies."""
    head = b"\x82\xa1p\x82\xa1a\x01\xa1b\x90\xa1t\x90"  # property b and the type are lists, which no event has

    assert Selector("a = 1").matches(View(head))


# --- selectors as values -------------------------------------------------------------------------------------------------


def test_selectors_of_one_text_are_equal_and_cannot_be_changed() -> None:
    one, other = Selector("a = 1"), Selector("a = 1")

    assert one == other and hash(one) == hash(other) and one != Selector("a  = 1")
    assert str(one) == "a = 1"
    with pytest.raises(AttributeError):
        one.text = "a = 2"  # type: ignore[misc]


def test_a_compiled_selector_is_kept_ready() -> None:
    assert parse_optional("kept = 1") is parse_optional("kept = 1")


@pytest.mark.parametrize("text", [None, "", "  \n\t"])
def test_an_empty_text_is_no_selector(text: str | None) -> None:
    assert parse_optional(text) is None


def test_a_text_that_is_not_empty_is_one() -> None:
    assert parse_optional(" a = 1 ") == Selector(" a = 1 ")
