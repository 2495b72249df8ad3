"""From the text of a selector to its tree, or to a refusal that shows the place.

The parser is LALR(1) and calls the builder as it goes: no step recurses, so a text of nothing but parentheses is as harmless as
any other. The builder counts levels and refuses what is too deep; whoever walks a finished tree may recurse.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import cast

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args

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
    one_deeper,
)

# JMS names no limit. This one bounds everything that follows: tokens, tree, generated function, patterns.
LENGTH_MAX = 4_096
# The least number of 64 bits is written as minus this.
_INTEGER_MAX = 1 << 63

_KEYWORDS = {
    name.lstrip("_"): name
    for name in ("_OR", "_AND", "NOT", "_BETWEEN", "_IN", "_LIKE", "_ESCAPE", "_IS", "_NULL", "TRUE", "FALSE")
}


def parse(text: str) -> Node:
    """The condition that a text says, or BadSelector."""
    try:
        _check_text(text)
        return _parsed(text)
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


def _parsed(text: str) -> Node:
    try:
        condition = cast(Node, _parser().parse(text))
    except UnexpectedToken as problem:
        is_end = problem.token.type == "$END"
        at = len(text.rstrip()) if is_end else problem.token.start_pos or 0
        raise Misplaced(_said_of(problem, text, at, is_end), at) from None
    except UnexpectedCharacters as problem:
        at = problem.pos_in_stream or 0
        raise Misplaced(complaint.stray(text[at]), at) from None
    need_condition(condition)
    return condition


def _said_of(problem: UnexpectedToken, text: str, at: int, is_end: bool) -> str:
    if text[at - 1 : at + 1] == "==":
        return "write = once, not =="
    return complaint.unexpected("" if is_end else str(problem.token), problem.accepts or ())


@lru_cache(maxsize=1)
def _parser() -> Lark:
    """Made at the first selector: it takes some tens of milliseconds, and most programs have none."""
    return Lark.open_from_package(
        __package__, "grammar.lark", parser="lalr", lexer="basic", transformer=_Builder(), lexer_callbacks={"NAME": _keyword}
    )


def _keyword(token: Token) -> Token:
    kind = _KEYWORDS.get(token.upper())
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
        return _compared(str(operator), left, right)

    def between(self, value: Node, negation: Token | None, least: Node, most: Node) -> Node:
        """`x BETWEEN a AND b` is `x >= a AND x <= b`; with NOT it is `x < a OR x > b`: so the specification."""
        for node in (value, least, most):
            need_number(node, "BETWEEN")
        if negation is None:
            return _joined(Both, (_compared(">=", value, least), _compared("<=", value, most)))
        return _joined(Either, (_compared("<", value, least), _compared(">", value, most)))

    def membership(self, value: Node, negation: Token | None, *members: Literal) -> Node:
        kind = kind_of(members[0])
        for member in members:
            if kind_of(member) is not kind:
                raise Misplaced("a list after IN has texts only or numbers only", member.at)
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
        return _chain(parts)

    def product(self, *parts: Node | Token) -> Node:
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
    return Literal(_start(sign), -value if sign == "-" else value, depth=depth_over(number))


def _unquoted(token: Token) -> str:
    return token[1:-1].replace("''", "'")


def _number(token: Token) -> int | float:
    written = token.lower()
    value = _whole(written, token) if written.startswith("0x") or written.rstrip("l").isdigit() else float(written.rstrip("fd"))
    if isinstance(value, float) and math.isinf(value):
        raise Misplaced("this number is larger than any of 64 bits with a floating point; write a smaller one", _start(token))
    return value


def _whole(written: str, token: Token) -> int:
    digits = written.rstrip("l")
    if len(digits) > 1 and digits[0] == "0" and digits[1] != "x":
        raise Misplaced("a whole number does not begin with 0; write it without, or as 0x… in base 16", _start(token))
    value = int(digits, 0)
    if value > _INTEGER_MAX:
        raise Misplaced("this number does not fit 64 bits; write it with a decimal point", _start(token))
    return value
