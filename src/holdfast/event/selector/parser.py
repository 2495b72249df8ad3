"""The parser: makes a tree of a selector's text, or a refusal that shows the place.

The parser is LALR(1) and calls the builder as it goes: no step recurses, so a text of nothing but parentheses is as harmless as
any other. The builder counts levels and refuses a text that is too deep, so a walk over a finished tree may recurse.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import cast

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args

from holdfast.event.event import is_property_name
from holdfast.event.selector import complaint, like
from holdfast.event.selector.attributes import Kind, unknown_jms_name
from holdfast.event.selector.complaint import Misplaced
from holdfast.event.selector.kinds import check_comparison, kind_of, need_condition, need_name, need_number
from holdfast.event.selector.tree import (
    Arithmetic,
    Both,
    Comparison,
    Either,
    Like,
    Literal,
    Membership,
    Name,
    Node,
    Not,
    NullTest,
    depth_over,
    names_in,
    one_deeper,
)

# JMS names no limits. These bound everything that follows: tokens, tree, generated function, patterns.
LENGTH_MAX = 4_096
# Names, values, operators and signs. A parser in Python takes some 20 µs for each, and everybody waits meanwhile.
WORDS_MAX = 512
# Every property of every event is compared with every name: a head of a MiB may have 300,000 of them.
NAMES_MAX = 32
_INTEGER_MAX = (1 << 63) - 1
# The least number of 64 bits is written as minus this, which is too large without its sign.
_WITH_MINUS_ONLY = 1 << 63
_TOO_LARGE = "this number does not fit 64 bits; write it with a decimal point"
_OCTAL = frozenset("01234567")
_WORD = re.compile(r"'[^']*'|[\w$.]+|[^\s\w]")

_KEYWORDS = {
    name.lstrip("_"): name
    for name in ("_OR", "_AND", "NOT", "_BETWEEN", "_IN", "_LIKE", "_ESCAPE", "_IS", "_NULL", "TRUE", "FALSE")
}


def parse(text: str, is_stored: bool = False) -> Node:
    """The condition of a text, or BadSelector. A stored one was checked by the release that took it: later limits and refusals do
    not apply."""
    try:
        _check_text(text)
        if not is_stored:
            _check_size(text)
        return _parsed(text, is_stored)
    except Misplaced as problem:
        raise complaint.refusal(text, problem) from None


def _check_text(text: str) -> None:
    if len(text) > LENGTH_MAX:
        raise Misplaced(f"a selector has at most {LENGTH_MAX} characters, this has {len(text)}; shorten it", LENGTH_MAX)
    if not text.strip(" \t\r\n\f"):
        raise Misplaced("the selector is empty; leave it out to receive every event", 0)
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        raise Misplaced("this is half a character (a surrogate), which no event can contain; remove it", problem.start) from None


def _check_size(text: str) -> None:
    words = 0
    for words, word in enumerate(_WORD.finditer(text), 1):
        if words > WORDS_MAX:
            raise Misplaced(
                f"a selector has at most {WORDS_MAX} words and signs; shorten it, or give the events a property that says it",
                word.start(),
            )


def _parsed(text: str, is_stored: bool) -> Node:
    try:
        condition = cast(Node, _parser(is_stored).parse(text))
    except UnexpectedToken as problem:
        is_end = problem.token.type == "$END"
        at = len(text.rstrip()) if is_end else problem.token.start_pos or 0
        raise Misplaced(_said_of(problem, text, at, is_end), at) from None
    except UnexpectedCharacters as problem:
        at = problem.pos_in_stream or 0
        raise Misplaced(complaint.stray(text[at]), at) from None
    need_condition(condition)
    if not is_stored:
        _check_names(condition)
    return condition


def _check_names(condition: Node) -> None:
    found: dict[str, None] = {}
    for name in names_in(condition):
        found[name.name] = None
        if len(found) > NAMES_MAX:
            raise Misplaced(f"a selector asks for at most {NAMES_MAX} different properties and attributes; ask for less", name.at)


def _said_of(problem: UnexpectedToken, text: str, at: int, is_end: bool) -> str:
    if text[at - 1 : at + 1] == "==":
        return "write = once, not =="
    return complaint.unexpected("" if is_end else str(problem.token), problem.accepts or ())


@lru_cache(maxsize=2)
def _parser(is_stored: bool) -> Lark:
    """Made at the first selector: it takes some tens of milliseconds, and most programs have none."""
    return Lark.open_from_package(
        __package__,
        "grammar.lark",
        parser="lalr",
        lexer="basic",
        transformer=_StoredBuilder() if is_stored else _Builder(),
        lexer_callbacks={"NAME": _keyword},
    )


def _keyword(token: Token) -> Token:
    kind = _KEYWORDS.get(token.upper()) if token.isascii() else None  # 'ı'.upper() is 'I'
    return Token.new_borrow_pos(kind, token.value, token) if kind else token


def _start(token: Token) -> int:
    return token.start_pos or 0


@v_args(inline=True)
class _Builder(Transformer[Token, Node]):
    """One method for each rule of the grammar, called as the rule is complete."""

    def start(self, condition: Node) -> Node:
        return condition

    def disjunction(self, *conditions: Node) -> Node:
        return _joined(Either, conditions)

    def conjunction(self, *conditions: Node) -> Node:
        return _joined(Both, conditions)

    def negation(self, word: Token, condition: Node) -> Node:
        need_condition(condition)
        return Not(_start(word), condition, depth=depth_over(condition))

    def comparison(self, left: Node, operator: Token, right: Node) -> Node:
        check_comparison(operator, _start(operator), left, right)
        self.check_fits(left, right)
        return _compared(str(operator), left, right)

    def between(self, value: Node, negation: Token | None, least: Node, most: Node) -> Node:
        """`x BETWEEN a AND b` is `x >= a AND x <= b`; with NOT it is `x < a OR x > b`: so the specification."""
        for node in (value, least, most):
            need_number(node, "BETWEEN")
        self.check_fits(value, least, most)
        if negation is None:
            return _joined(Both, (_compared(">=", value, least), _compared("<=", value, most)))
        return _joined(Either, (_compared("<", value, least), _compared(">", value, most)))

    def membership(self, value: Node, negation: Token | None, *members: Literal) -> Node:
        kind = kind_of(members[0])
        for member in members:
            if kind_of(member) is not kind:
                raise Misplaced("a list after IN has texts only or numbers only", member.at)
        self.check_fits(*members)
        name = need_name(value, "IN", kind)
        found = Membership(name.at, name, tuple(member.value for member in members), depth=depth_over(name))
        return _negated_if(negation, found)

    def like(self, value: Node, negation: Token | None, pattern: Token, escape: Token | None) -> Node:
        name = need_name(value, "LIKE", Kind.TEXT)
        letter = None if escape is None else _unquoted(escape)
        if letter is not None and len(letter) != 1:
            raise Misplaced("ESCAPE takes exactly one character, as in ESCAPE '!'", _start(cast(Token, escape)))
        mistake = like.mistake_in(_unquoted(pattern), letter)
        if mistake:
            raise Misplaced(mistake, _start(pattern))
        return _negated_if(negation, Like(name.at, name, _unquoted(pattern), letter, depth=depth_over(name)))

    def null_test(self, value: Node, negation: Token | None) -> Node:
        name = need_name(value, "IS NULL", *Kind)
        return _negated_if(negation, NullTest(name.at, name, depth=depth_over(name)))

    def sum(self, *parts: Node | Token) -> Node:
        self.check_fits(*parts[::2])
        return _chain(parts)

    def product(self, *parts: Node | Token) -> Node:
        self.check_fits(*parts[::2])
        return _chain(parts)

    def signed(self, sign: Token, operand: Node) -> Node:
        need_number(operand, f"the sign {sign}")
        if isinstance(operand, Literal):
            return _with_sign(sign, operand)
        zero = Literal(_start(sign), 0)
        return Arithmetic(zero.at, zero, ((str(sign), operand),), depth=depth_over(operand))

    def signed_member(self, sign: Token, number: Token) -> Node:
        return _with_sign(sign, self.number(number))

    def parenthesised(self, node: Node) -> Node:
        return one_deeper(node)

    def name(self, token: Token) -> Node:
        if not is_property_name(token):
            stray = next(at for at in range(1, len(token) + 1) if not is_property_name(token[:at])) - 1
            raise Misplaced(complaint.stray(token[stray]), _start(token) + stray)
        refused = unknown_jms_name(token)
        if refused:
            raise Misplaced(refused, _start(token))
        return Name(_start(token), str(token))

    def string(self, token: Token) -> Literal:
        return Literal(_start(token), _unquoted(token))

    def truth(self, token: Token) -> Literal:
        return Literal(_start(token), token.upper() == "TRUE")

    def number(self, token: Token) -> Literal:
        return Literal(_start(token), _number(token))

    def check_fits(self, *operands: Node | Token) -> None:
        """Misplaced for the number that is taken with a minus only."""
        for operand in operands:
            if isinstance(operand, Literal) and type(operand.value) is int and operand.value > _INTEGER_MAX:
                raise Misplaced(_TOO_LARGE, operand.at)


class _StoredBuilder(_Builder):
    """Takes the texts that an earlier release took."""

    def check_fits(self, *operands: Node | Token) -> None:
        pass


def _joined(kind: type[Both] | type[Either], conditions: tuple[Node, ...]) -> Node:
    for condition in conditions:
        need_condition(condition)
    return kind(conditions[0].at, conditions, depth=depth_over(*conditions))


def _compared(operator: str, left: Node, right: Node) -> Node:
    return Comparison(left.at, operator, left, right, depth=depth_over(left, right))


def _negated_if(negation: Token | None, condition: Node) -> Node:
    return condition if negation is None else Not(condition.at, condition, depth=depth_over(condition))


def _chain(parts: tuple[Node | Token, ...]) -> Node:
    operands = cast("tuple[Node, ...]", parts[::2])
    operators = [str(operator) for operator in parts[1::2]]
    for operand, operator in zip(operands, (operators[0], *operators), strict=True):
        need_number(operand, operator)
    steps = tuple(zip(operators, operands[1:], strict=True))
    return Arithmetic(operands[0].at, operands[0], steps, depth=depth_over(*operands))


def _with_sign(sign: Token, number: Literal) -> Literal:
    value = cast("int | float", number.value)
    signed = -value if sign == "-" else value
    # As in arithmetic: a number larger than 64 bits becomes a floating one.
    is_larger = type(signed) is int and value < 0 and signed > _INTEGER_MAX
    return Literal(_start(sign), float(signed) if is_larger else signed, depth=depth_over(number))


def _unquoted(token: Token) -> str:
    return token[1:-1].replace("''", "'")


def _number(token: Token) -> int | float:
    written = token.lower()
    value = _whole(written, token) if written.startswith("0x") or written.rstrip("l").isdigit() else float(written.rstrip("fd"))
    if isinstance(value, float) and math.isinf(value):
        raise Misplaced("this number is larger than any of 64 bits with a floating point; write a smaller one", _start(token))
    return value


def _whole(written: str, token: Token) -> int:
    """As in Java: 0x… in base 16, 0… in base 8."""
    digits = written.rstrip("l")
    is_octal = len(digits) > 1 and digits[0] == "0" and digits[1] != "x"
    if is_octal and not _OCTAL.issuperset(digits):
        raise Misplaced(
            "a whole number that begins with 0 is in base 8, which has no digits 8 and 9; write it without the 0", _start(token)
        )
    value = int(digits, 8 if is_octal else 0)
    if value > _WITH_MINUS_ONLY:
        raise Misplaced(_TOO_LARGE, _start(token))
    return value
