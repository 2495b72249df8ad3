"""The kinds of operands that an operator takes, as far as the text of a selector tells.

The value of a property is known only when an event comes, and then unlike values are no error (see `values`). But mistakes in
the text are refused at once: `'a' + 1`, `NOT 5`, `TRUE > FALSE`, `priority LIKE '5%'` can only be mistakes.
"""

from __future__ import annotations

from holdfast.event.selector.attributes import ATTRIBUTES, Kind
from holdfast.event.selector.complaint import Misplaced
from holdfast.event.selector.tree import CONDITIONS, Literal, Name, Node

EQUALITIES = ("=", "<>")


def kind_of(node: Node) -> Kind:
    if isinstance(node, CONDITIONS):
        return Kind.CONDITION
    if isinstance(node, Name):
        return ATTRIBUTES[node.name].kind if node.name in ATTRIBUTES else Kind.ANY
    if isinstance(node, Literal):
        return _kind_of_value(node.value)
    return Kind.NUMBER


def _kind_of_value(value: bool | int | float | str) -> Kind:
    if isinstance(value, bool):
        return Kind.TRUTH
    return Kind.TEXT if isinstance(value, str) else Kind.NUMBER


def need_condition(node: Node) -> None:
    """Misplaced unless this can be true or false by itself: a condition, TRUE, FALSE, or a property that may have that value."""
    kind = kind_of(node)
    if kind in (Kind.NUMBER, Kind.TEXT):
        raise Misplaced(f"this is {kind.value}, not a condition; compare it with something, as in amount > 100", node.at)


def need_number(node: Node, operator: str) -> None:
    kind = kind_of(node)
    if kind not in (Kind.NUMBER, Kind.ANY):
        raise Misplaced(f"this is {kind.value}, and {operator} takes numbers only", node.at)


def need_name(node: Node, operator: str, *kinds: Kind) -> Name:
    """The node as a name of one of these kinds, which is all that `operator` takes on its left."""
    if not isinstance(node, Name):
        raise Misplaced(f"{operator} takes the name of a property or attribute on its left", node.at)
    kind = kind_of(node)
    if kind is not Kind.ANY and kind not in kinds:
        raise Misplaced(f"{node.name} is {kind.value}, and {operator} asks for {kinds[0].value} here", node.at)
    return node


def check_comparison(operator: str, at: int, left: Node, right: Node) -> None:
    for node in (left, right):
        if kind_of(node) is Kind.CONDITION:
            raise Misplaced("a condition cannot be compared; join conditions by AND, OR and NOT", node.at)
        if operator not in EQUALITIES and kind_of(node) in (Kind.TEXT, Kind.TRUTH):
            raise Misplaced(f"this is {kind_of(node).value}, and {operator} takes numbers only; others have = and <>", node.at)
    kinds = {kind_of(left), kind_of(right)} - {Kind.ANY}
    if len(kinds) > 1:
        said = f"{kind_of(left).value} and {kind_of(right).value}"
        raise Misplaced(f"{said} are never equal nor different; compare like with like", at)
