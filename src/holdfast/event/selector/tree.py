"""The tree of a selector: values and conditions.

    values       Literal  Name  Arithmetic
    conditions   Comparison  Membership  Like  NullTest  Not  Both  Either      (and a Name or TRUE, FALSE, read as a condition)

`BETWEEN` is not here: it is two comparisons, as the specification defines it. Chains (`a AND b AND c`, `1 + 2 - 3`) are one node
with many operands, so that a long selector is not a deep one. Every node knows where in the text it begins and how deep it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from holdfast.event.selector.complaint import Misplaced

# Far beyond what people write, and well below what Python's own compiler takes when the tree becomes a function.
DEPTH_MAX = 100


@dataclass(frozen=True, slots=True)
class Node:
    at: int = field(compare=False)
    depth: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Literal(Node):
    value: bool | int | float | str


@dataclass(frozen=True, slots=True)
class Name(Node):
    name: str


@dataclass(frozen=True, slots=True)
class Arithmetic(Node):
    """`first`, then each operator of `+ - * /` with its operand, from left to right. A sign before a value is `0 - value`."""

    first: Node
    steps: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Membership(Node):
    name: Name
    members: tuple[int | float | str, ...]


@dataclass(frozen=True, slots=True)
class Like(Node):
    name: Name
    pattern: str
    escape: str | None


@dataclass(frozen=True, slots=True)
class NullTest(Node):
    name: Name


@dataclass(frozen=True, slots=True)
class Not(Node):
    condition: Node


@dataclass(frozen=True, slots=True)
class Both(Node):
    conditions: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Either(Node):
    conditions: tuple[Node, ...]


CONDITIONS = (Comparison, Membership, Like, NullTest, Not, Both, Either)


def names_in(node: Node) -> Iterator[Name]:
    """The names that stand in a tree, from left to right."""
    match node:
        case Name():
            yield node
        case Membership(name=name) | Like(name=name) | NullTest(name=name):
            yield name
        case Arithmetic(first=first, steps=steps):
            for operand in (first, *(operand for _, operand in steps)):
                yield from names_in(operand)
        case Comparison(left=left, right=right):
            yield from names_in(left)
            yield from names_in(right)
        case Not(condition=condition):
            yield from names_in(condition)
        case Both(conditions=conditions) | Either(conditions=conditions):
            for condition in conditions:
                yield from names_in(condition)


def depth_over(*operands: Node) -> int:
    """The depth of a node above these, or Misplaced when that is too deep."""
    deepest = max(operands, key=lambda operand: operand.depth)
    if deepest.depth >= DEPTH_MAX:
        raise Misplaced(f"the expression is nested more than {DEPTH_MAX} levels deep; write it flatter", deepest.at)
    return deepest.depth + 1


def one_deeper(node: Node) -> Node:
    """The node, counted as one level deeper: in parentheses."""
    return replace(node, depth=depth_over(node))
