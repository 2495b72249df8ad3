"""Selectors against an evaluator that walks its own tree, slowly and plainly, as the specification reads (requirement B5).

Expressions are generated as nested tuples, written out as text with no more parentheses than needed (and now and then some
more), and asked of generated events, both ways.
"""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.event.event import Head, encode_head
from holdfast.event.selector.like import Likeness, stretches
from holdfast.event.selector.selector import Selector, View
from tests import effort

Tree = tuple[Any, ...]
Event = dict[str, Any]  # name → value, as the naive evaluator sees it

PROPERTIES = ["a", "b", "c", "is_urgent", "Region", "$x_1", "größe", "価格"]
TEXT_ATTRIBUTES = ["type", "subject", "group", "JMSCorrelationID", "JMSType"]
NUMBER_ATTRIBUTES = ["priority", "time", "expires_at", "JMSPriority", "JMSTimestamp", "holdfast_hops", "holdfast_origin"]
TEXTS = ["", "a", "ab", "abc", "A", "b", "it's", "100%", "_", "a_c", "é\n", "ééb", "aXb\nc"]
INTEGERS = [0, 1, -1, 2, 3, 7, -7, 100, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 0.5, 1.0, -2.5, 7.0, 1e300, -1e308, 2.0**63, 5e-324]
IN_BASE_8 = (100, 3)  # written as 0144 and 03
ODD = [float("inf"), float("-inf"), float("nan"), 2**64 - 1]
PATTERNS = [
    "",
    "%",
    "_",
    "a%",
    "%b",
    "%b%",
    "a%c",
    "a_c",
    "%_",
    "_%_",
    "a%b%c",
    "100!%",
    "!_",
    "%!_%",
    "a%%b",
    "_é%",
    "%a%b%",
    "__",
]
COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]


# --- generating ----------------------------------------------------------------------------------------------------------


def any_number(dice: Random, depth: int) -> Tree:
    roll = dice.random()
    if depth == 0 or roll < 0.5:
        if dice.random() < 0.5:
            return ("name", dice.choice(PROPERTIES + NUMBER_ATTRIBUTES))
        return ("literal", dice.choice(INTEGERS + FLOATS))
    if roll < 0.6:
        return ("sign", dice.choice("+-"), any_number(dice, depth - 1))
    return ("arithmetic", dice.choice("+-*/"), any_number(dice, depth - 1), any_number(dice, depth - 1))


def any_comparison(dice: Random, depth: int) -> Tree:
    roll = dice.random()
    if roll < 0.5:
        return ("compare", dice.choice(COMPARISONS), any_number(dice, depth), any_number(dice, depth))
    equality = dice.choice(COMPARISONS[:2])
    sides: list[Tree]
    if roll < 0.75:
        sides = [("name", dice.choice(PROPERTIES + TEXT_ATTRIBUTES)), ("literal", dice.choice(TEXTS))]
    else:
        sides = [("name", dice.choice(PROPERTIES)), ("literal", dice.choice([True, False]))]
    if dice.random() < 0.2:
        sides[1] = ("name", dice.choice(PROPERTIES))
    dice.shuffle(sides)
    return ("compare", equality, *sides)


def any_leaf(dice: Random, depth: int) -> Tree:
    roll = dice.random()
    if roll < 0.45:
        return any_comparison(dice, depth)
    if roll < 0.6:
        return (dice.choice(["between", "outside"]), *(any_number(dice, depth) for _ in range(3)))
    if roll < 0.7:
        choices: list[tuple[list[Any], list[str]]] = [(TEXTS, TEXT_ATTRIBUTES), (INTEGERS + FLOATS, NUMBER_ATTRIBUTES)]
        members, names = dice.choice(choices)
        return ("in", ("name", dice.choice(PROPERTIES + names)), [dice.choice(members) for _ in range(dice.randint(1, 4))])
    if roll < 0.85:
        return ("like", ("name", dice.choice(PROPERTIES + TEXT_ATTRIBUTES)), dice.choice(PATTERNS))
    if roll < 0.93:
        return ("null", ("name", dice.choice(PROPERTIES + TEXT_ATTRIBUTES + NUMBER_ATTRIBUTES)))
    return ("name", dice.choice(PROPERTIES)) if roll < 0.98 else ("literal", dice.choice([True, False]))


def any_condition(dice: Random, depth: int) -> Tree:
    roll = dice.random()
    if depth == 0 or roll < 0.3:
        return any_leaf(dice, min(depth, 2))
    if roll < 0.5:
        return ("not", any_condition(dice, depth - 1))
    return (dice.choice(["and", "or"]), any_condition(dice, depth - 1), any_condition(dice, depth - 1))


def any_event(dice: Random) -> tuple[Event, View]:
    values: list[Any] = [True, False, *TEXTS, *INTEGERS, *FLOATS, *ODD]
    properties = {name: dice.choice(values) for name in PROPERTIES if dice.random() < 0.8}
    text: dict[str, Any] = {name: dice.choice([None, *TEXTS]) for name in ("subject", "group", "correlation_id")}
    type_, priority = dice.choice(TEXTS), dice.randint(0, 9)
    hops, origin = dice.choice([(0, 0), (1, 7), (255, (1 << 32) - 1)])
    time_us, expires_at_ms = dice.choice([0, 1_500, 7_999]), dice.choice([0, 0, 1, 7, 2**31])
    head = Head(type=type_, time_us=time_us, properties=properties or None, expires_at_ms=expires_at_ms, **text)
    event = {name: None if value != value else value for name, value in properties.items()} | {
        "type": type_, "JMSType": type_, "subject": text["subject"], "group": text["group"], "priority": priority,
        "JMSPriority": priority, "time": time_us // 1000, "JMSTimestamp": time_us // 1000, "expires_at": expires_at_ms or None,
        "holdfast_hops": hops or None, "holdfast_origin": origin or None,
        "JMSCorrelationID": text["correlation_id"],
    }  # fmt: skip
    return event, View(encode_head(head), priority=priority, trail=origin << 8 | hops)


# --- writing out ---------------------------------------------------------------------------------------------------------

STRENGTH = {
    "or": 1,
    "and": 2,
    "not": 3,
    "compare": 4,
    "between": 4,
    "in": 4,
    "like": 4,
    "null": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
}


def strength(tree: Tree) -> int:
    if tree[0] == "arithmetic":
        return STRENGTH[tree[1]]
    return STRENGTH.get(tree[0], 7 if tree[0] == "sign" else 8)


def written(tree: Tree, dice: Random, at_least: int = 0) -> str:
    text = plainly_written(tree, dice)
    return f"({text})" if strength(tree) < at_least or dice.random() < 0.05 else text


def plainly_written(tree: Tree, dice: Random) -> str:
    own = strength(tree)
    match tree:
        case ("literal", value):
            return literal(value)
        case ("name", name):
            return str(name)
        case ("sign", sign, operand):
            return f"{sign} {written(operand, dice, own)}"
        case ("arithmetic" | "compare", operator, left, right):
            side = own if tree[0] == "arithmetic" else own + 1
            return f"{written(left, dice, side)} {operator} {written(right, dice, own + 1)}"
        case ("not", ("in" | "like" | "null", *_)) if dice.random() < 0.5:
            return negated_inside(plainly_written(tree[1], dice), dice)
        case ("between" | "outside", value, least, most):
            parts = [written(part, dice, own + 1) for part in (value, least, most)]
            between = word("between", dice) if tree[0] == "between" else f"{word('not', dice)} {word('between', dice)}"
            return f"{parts[0]} {between} {parts[1]} {word('and', dice)} {parts[2]}"
        case ("in", name, members):
            return f"{written(name, dice, 9)} {word('in', dice)} ({', '.join(map(literal, members))})"
        case ("like", name, pattern):
            escape = f" {word('escape', dice)} '!'" if "!" in pattern else ""
            return f"{written(name, dice, 9)} {word('like', dice)} {literal(pattern)}{escape}"
        case ("null", name):
            return f"{written(name, dice, 9)} {word('is', dice)} {word('null', dice)}"
        case ("not", condition):
            return f"{word('not', dice)} {written(condition, dice, own)}"
        case (join, left, right):
            return f"{written(left, dice, own)} {word(join, dice)} {written(right, dice, own)}"
    raise AssertionError(tree)


def negated_inside(leaf: str, dice: Random) -> str:
    """`a IN (1)` as `a NOT IN (1)`, and `a IS NULL` as `a IS NOT NULL`."""
    name, keyword, rest = leaf.split(" ", 2)
    negation = word("not", dice)
    return f"{name} {keyword} {negation} {rest}" if keyword.lower() == "is" else f"{name} {negation} {keyword} {rest}"


def word(keyword: str, dice: Random) -> str:
    return dice.choice([keyword, keyword.upper(), keyword.title()])


def literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return str(value).upper()
    return f"{'-' * (value < 0)}0{abs(value):o}" if value in IN_BASE_8 and isinstance(value, int) else repr(value)


# --- evaluating, naively -------------------------------------------------------------------------------------------------


def condition_of(tree: Tree, event: Event) -> bool | None:
    match tree:
        case ("and", left, right):
            return and_(condition_of(left, event), condition_of(right, event))
        case ("or", left, right):
            return or_(condition_of(left, event), condition_of(right, event))
        case ("not", condition):
            return not_(condition_of(condition, event))
        case ("compare", operator, left, right):
            return compared(operator, value_of(left, event), value_of(right, event))
        case ("between", value, least, most):
            found = value_of(value, event)
            return and_(compared(">=", found, value_of(least, event)), compared("<=", found, value_of(most, event)))
        case ("outside", value, least, most):
            found = value_of(value, event)
            return or_(compared("<", found, value_of(least, event)), compared(">", found, value_of(most, event)))
        case ("in", name, members):
            found = value_of(name, event)
            if found is None or sort_of(found) != sort_of(members[0]):
                return None
            return any(compared("=", found, member) for member in members)
        case ("like", name, pattern):
            found = value_of(name, event)
            return None if found is None else isinstance(found, str) and is_like(found, pattern)
        case ("null", name):
            return value_of(name, event) is None
    return compared("=", value_of(tree, event), True)


def not_(condition: bool | None) -> bool | None:
    return None if condition is None else not condition


def and_(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def or_(left: bool | None, right: bool | None) -> bool | None:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def sort_of(value: Any) -> str:
    return {bool: "truth", str: "text", int: "number", float: "number"}[type(value)]


def compared(operator: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    if sort_of(left) != sort_of(right) or (sort_of(left) != "number" and operator not in ("=", "<>")):
        return False
    less, equal = bool(left < right), bool(left == right)
    return {"=": equal, "<>": not equal, "<": less, "<=": less or equal, ">": not less and not equal, ">=": not less}[operator]


def value_of(tree: Tree, event: Event) -> Any:
    match tree:
        case ("literal", value):
            return value
        case ("name", name):
            return event.get(name)
        case ("sign", sign, operand):
            return computed(sign, 0, value_of(operand, event))
        case (_, operator, left, right):
            return computed(operator, value_of(left, event), value_of(right, event))
    raise AssertionError(tree)


def computed(operator: str, left: Any, right: Any) -> Any:
    if any(value is None or sort_of(value) != "number" for value in (left, right)):
        return None
    if operator == "/" and right == 0:
        return None
    if isinstance(left, int) and isinstance(right, int):
        exact = {"+": left + right, "-": left - right, "*": left * right, "/": math.trunc(Fraction(left, right or 1))}[operator]
        return exact if -(2**63) <= exact < 2**63 else float(exact)
    one, other = float(left), float(right)
    result = {"+": one + other, "-": one - other, "*": one * other, "/": one / (other or 1.0)}[operator]
    return result if math.isfinite(result) else None


def is_like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "!":
        return text[:1] == pattern[1] and is_like(text[1:], pattern[2:])
    if pattern[0] == "%":
        return any(is_like(text[skipped:], pattern[1:]) for skipped in range(len(text) + 1))
    return text != "" and pattern[0] in ("_", text[0]) and is_like(text[1:], pattern[1:])


# --- both ----------------------------------------------------------------------------------------------------------------


def in_steps(selector: Selector, view: View) -> bool:
    """As a large event is asked about."""
    compiled = selector.ready()
    steps = compiled.holds_in_steps(compiled.read(view.head), view.source, view.id_number, view.priority, view.trail)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return bool(done.value)


def check(seed: int, expressions: int, events_each: int) -> dict[bool | None, int]:
    """How often each answer came out; so that a test can say it saw them all."""
    dice = Random(seed)
    answers: dict[bool | None, int] = {True: 0, False: 0, None: 0}
    events = [any_event(dice) for _ in range(500)]
    for _ in range(expressions):
        tree = any_condition(dice, dice.randint(0, 4))
        text = written(tree, dice)
        selector, denied = Selector(text), Selector(f"NOT ({text})")
        for event, view in dice.choices(events, k=events_each):
            expected = condition_of(tree, event)
            found = (selector.matches(view), denied.matches(view))
            assert found == (expected is True, expected is False), f"{text!r} of {event}: {expected} expected"
            assert in_steps(selector, view) is found[0], f"{text!r} of {event}: another answer in steps"
            answers[expected] += 1
    return answers


def test_b5_selectors_agree_with_a_naive_evaluator() -> None:
    answers = check(seed=1, expressions=300, events_each=30)

    assert min(answers.values()) > 500


@pytest.mark.long
@pytest.mark.slow
def test_b5_selectors_agree_with_a_naive_evaluator_a_hundred_thousand_times() -> None:
    answers = check(seed=effort.seed(2), expressions=3_400, events_each=30)

    assert sum(answers.values()) > 100_000
    assert min(answers.values()) > 5_000


@given(st.text("ab\néЖ😀", max_size=60), st.text("ab_%éЖ😀", max_size=25))
def test_like_agrees_with_a_naive_matcher_however_it_looks(text: str, pattern: str) -> None:
    likeness = Likeness(pattern, None)

    assert bool(likeness.matches(text)) is is_like(text, pattern)


@given(st.text("abéЖ😀", max_size=60), st.text("ab_éЖ😀", min_size=1, max_size=9))
def test_places_compared_all_at_once_are_those_found_one_by_one(text: str, letters: str) -> None:
    stretch = stretches(letters, None)[0]
    ends = [at + len(letters) for at in range(len(text) - len(letters) + 1) if is_like(text[at : at + len(letters)], letters)]

    try:
        next(stretch.search_by_bits(text, 0, len(text)))
        found = -1
    except StopIteration as done:
        found = done.value

    assert found == (ends[0] if ends else -1)
