"""Values, and what a selector's operators do with them. A value is a bool, int, float, str, or None for NULL.

    comparison          both numbers, whole or not      compared exactly
                        both texts, both true or false  = and <>; anything else is FALSE
                        unlike                          FALSE, also <>: the specification says so
                        one is NULL                     unknown
    IN                  of the kind of the members      whether it is one of them
                        anything else                   unknown, also NOT IN
    LIKE                a text                          whether it is like the pattern
                        anything else                   FALSE, so that NOT LIKE is TRUE
    + - * /             both numbers                    a whole number of 64 bits where it fits, otherwise a floating one
                        anything else                   NULL

Two whole numbers divide as in Java: towards zero, 7 / 2 = 3 (ActiveMQ and RabbitMQ say 3.5; `7 / 2.0` is 3.5 everywhere).
A result that is no number (a division by zero, an overflow, NaN) is NULL. No operator raises, and none makes a number of more
than 64 bits: time and memory are bounded for any event.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from holdfast.event.event import PropertyValue

NUMBERS = frozenset((int, float))
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_INFINITE = float("inf")

Number = int | float
Comparing = Callable[[PropertyValue, PropertyValue], bool | None]
Computing = Callable[[PropertyValue, PropertyValue], Number | None]


def _is_null(value: PropertyValue) -> bool:
    return value is None or value != value


def _comparing(compare: Callable[[Number, Number], bool], compare_others: Callable[[object, object], bool] | None) -> Comparing:
    def compared(left: PropertyValue, right: PropertyValue) -> bool | None:
        if _is_null(left) or _is_null(right):
            return None
        kind, other_kind = type(left), type(right)
        if kind in NUMBERS and other_kind in NUMBERS:
            return compare(left, right)  # type: ignore[arg-type]  # both are numbers here
        return kind is other_kind and compare_others is not None and compare_others(left, right)

    return compared


COMPARING: dict[str, Comparing] = {
    "=": _comparing(operator.eq, operator.eq),
    "<>": _comparing(operator.ne, operator.ne),
    "<": _comparing(operator.lt, None),
    "<=": _comparing(operator.le, None),
    ">": _comparing(operator.gt, None),
    ">=": _comparing(operator.ge, None),
}


def _divide(left: Number, right: Number) -> Number | None:
    if right == 0:
        return None
    if type(left) is int and type(right) is int:
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    return left / right


def _bounded(value: Number | None) -> Number | None:
    if type(value) is int:
        return value if _INT64_MIN <= value <= _INT64_MAX else float(value)
    return value if value is not None and -_INFINITE < value < _INFINITE else None


def _computing(compute: Callable[[Number, Number], Number | None]) -> Computing:
    def computed(left: PropertyValue, right: PropertyValue) -> Number | None:
        if type(left) in NUMBERS and type(right) in NUMBERS:
            return _bounded(compute(left, right))  # type: ignore[arg-type]  # both are numbers here
        return None

    return computed


COMPUTING: dict[str, Computing] = {
    "+": _computing(operator.add),
    "-": _computing(operator.sub),
    "*": _computing(operator.mul),
    "/": _computing(_divide),
}


def chain(value: PropertyValue, *steps: tuple[Computing, PropertyValue]) -> PropertyValue:
    """The value, then each computing with its operand, from left to right: a long sum is a loop, not a deep nest of calls."""
    for compute, operand in steps:
        value = compute(value, operand)
    return value
