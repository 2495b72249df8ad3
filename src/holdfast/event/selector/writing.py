"""Conditions as Python. Three-valued logic needs no third value at run time.

Each condition is written out either as "this is TRUE" or as "this is FALSE", two questions with plain answers; unknown is what
answers neither:

    TRUE(a AND b)  = TRUE(a) and TRUE(b)            FALSE(a AND b) = FALSE(a) or FALSE(b)
    TRUE(a OR b)   = TRUE(a) or TRUE(b)             FALSE(a OR b)  = FALSE(a) and FALSE(b)
    TRUE(NOT a)    = FALSE(a)                       FALSE(NOT a)   = TRUE(a)

A name against a literal, which is what most selectors consist of, is written out in full; anything else calls `values`. Words of
the selector reach the source by `repr` only. The tree is at most `tree.DEPTH_MAX` deep, so this may recurse, and Python's
compiler after it.
"""

from __future__ import annotations

from typing import Any

from holdfast.event.selector import like
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
)
from holdfast.event.selector.values import COMPARING, COMPUTING, NUMBERS, chain

_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_CALLED = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"} | {
    "=": "equal", "<>": "different", "<": "less", "<=": "not_more", ">": "more", ">=": "not_less",
}  # fmt: skip
_BUILTINS = {"__builtins__": {"type": type, "str": str, "bool": bool}}


class Writer:
    """Writes a condition, and notes what it needs: `variables` for the names it asks for, and what must be `known`."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}
        self.known: dict[str, Any] = {_CALLED[sign]: called for sign, called in (COMPARING | COMPUTING).items()}
        self.known |= _BUILTINS | {"NUMBERS": NUMBERS, "chain": chain}

    def is_so(self, condition: Node, wanted: bool = True) -> str:
        """Python that is true when the condition is TRUE, or FALSE if that is `wanted`."""
        match condition:
            case Not(condition=denied):
                return self.is_so(denied, not wanted)
            case Both(conditions=parts):
                return self._joined(" and " if wanted else " or ", parts, wanted)
            case Either(conditions=parts):
                return self._joined(" or " if wanted else " and ", parts, wanted)
            case Literal(value=value):
                return str(value is wanted)
            case Comparison(operator=operator, left=Name() as name, right=Literal(value=value)):
                return self._about(name, _compared(self._value(name), operator, value), wanted)
            case Comparison(operator=operator, left=Literal(value=value), right=Name() as name):
                return self._about(name, _compared(self._value(name), _FLIPPED[operator], value), wanted)
            case Comparison(operator=operator, left=left, right=right):
                return f"({_CALLED[operator]}({self._value(left)}, {self._value(right)}) is {wanted})"
        return self._is_so_of_one_name(condition, wanted)

    def _is_so_of_one_name(self, condition: Node, wanted: bool) -> str:
        match condition:
            case Name():
                return self._about(condition, f"{self._value(condition)} is True", wanted)
            case NullTest(name=name):
                return f"({'not ' * wanted}{_is_known(self._value(name))})"
            case Membership(name=name, members=members):
                return self._about(name, self._is_member(self._value(name), members), wanted)
            case Like(name=name, pattern=pattern, escape=escape):
                value, matches = self._value(name), self._constant(like.matcher(pattern, escape))
                return self._about(name, f"type({value}) is str and {matches}({value})", wanted)
        raise AssertionError(f"{condition!r} is no condition")

    def _is_member(self, value: str, members: tuple[int | float | str, ...]) -> str:
        found = f"{value} in {self._constant(frozenset(members))}"
        return found if isinstance(members[0], str) else f"type({value}) in NUMBERS and {found}"

    def _joined(self, word: str, conditions: tuple[Node, ...], wanted: bool) -> str:
        return f"({word.join(self.is_so(condition, wanted) for condition in conditions)})"

    def _about(self, name: Name, is_true: str, wanted: bool) -> str:
        """A question about one value: it is FALSE when it is not TRUE, unless the value is NULL."""
        return f"({is_true})" if wanted else f"({_is_known(self._value(name))} and not ({is_true}))"

    def _value(self, node: Node) -> str:
        match node:
            case Literal(value=value):
                return f"({value!r})"
            case Name(name=name):
                return self.variables.setdefault(name, f"v{len(self.variables)}")
            case Arithmetic(first=first, steps=((operator, operand),)):
                return f"{_CALLED[operator]}({self._value(first)}, {self._value(operand)})"
            case Arithmetic(first=first, steps=steps):
                rest = ", ".join(f"({_CALLED[operator]}, {self._value(operand)})" for operator, operand in steps)
                return f"chain({self._value(first)}, {rest})"
        raise AssertionError(f"{node!r} is no value")

    def _constant(self, value: object) -> str:
        name = f"c{len(self.known)}"
        self.known[name] = value
        return name


def _is_known(value: str) -> str:
    """Neither absent nor NaN, which is the one value that differs from itself."""
    return f"({value} is not None and {value} == {value})"


def _compared(value: str, operator: str, literal: bool | int | float | str) -> str:
    """How a value is compared with a literal. Python's own == takes 1 for True, and its < raises at unlike values."""
    if isinstance(literal, bool):
        return f"{value} is {literal if operator == '=' else not literal}"
    if isinstance(literal, str):
        return f"{value} == {literal!r}" if operator == "=" else f"type({value}) is str and {value} != {literal!r}"
    if operator == "=":
        return f"{value} == {literal!r}" + f" and type({value}) is not bool" * (literal in (0, 1))
    if operator == "<>":
        return f"type({value}) in NUMBERS and {value} != {literal!r} and {value} == {value}"
    return f"type({value}) in NUMBERS and {value} {operator} {literal!r}"
