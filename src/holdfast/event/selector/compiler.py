"""The compiler: makes one Python function of a selector's condition, over the values that it names, and nothing else.

`amount > 100 AND region = 'eu'` becomes

    def holds(head, source, id_number, priority, trail):
        properties = head.properties or nothing
        v0 = properties.v0
        v1 = properties.v1
        return ((type(v0) in NUMBERS and v0 > 100) and (v1 == 'eu'))

and `head` is not the whole head either: it is decoded into a struct made for this selector, which has only the fields and
properties that it names. The rest of the head is skipped: that takes a third of the time, and makes no objects that nobody uses.

Three-valued logic needs no third value at run time. Each condition is written out either as "this is TRUE" or as "this is FALSE",
two questions with plain answers; unknown answers neither:

    TRUE(a AND b)  = TRUE(a) and TRUE(b)            FALSE(a AND b) = FALSE(a) or FALSE(b)
    TRUE(a OR b)   = TRUE(a) or TRUE(b)             FALSE(a OR b)  = FALSE(a) and FALSE(b)
    TRUE(NOT a)    = FALSE(a)                       FALSE(NOT a)   = TRUE(a)

A name against a literal, as in most selectors, is written out in full; anything else calls `values`. Words of the selector reach
the source by `repr` only. A condition that may take long over a long text (`LIKE`, two names compared) can be written as a step
of a generator, so that the caller may pause in between. The tree is at most `tree.DEPTH_MAX` deep, so this may recurse, and
Python's compiler after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.event.event import Head, PropertyValue
from holdfast.event.identifier import to_text
from holdfast.event.selector.attributes import ATTRIBUTES
from holdfast.event.selector.like import STEP_COST, Likeness, Steps
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

# The cost of an event beside the bytes of its head, and of a comparison, in bytes that are merely read.
_EVENT_COST = 256
_LEAF_COST = 32
# Every key of a head is compared with the names of the selector: so many names cost as much as reading the byte.
_NAMES_OF_ONE_COST = 4

_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_CALLED = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"} | {
    "=": "equal", "<>": "different", "<": "less", "<=": "not_more", ">": "more", ">=": "not_less",
}  # fmt: skip
_BUILTINS = {"__builtins__": {"type": type, "str": str, "bool": bool}}


class Writer:
    """Writes a condition as Python, and collects what it needs: `variables` for its names, and `known` globals.

    `cost_of_letter` is the cost of a letter of a text in all comparisons, `leaves` the number of comparisons.
    """

    def __init__(self, is_in_steps: bool = False) -> None:
        self.cost_of_letter = 0
        self.leaves = 0
        self._is_in_steps = is_in_steps
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
                self.leaves += 1
                compared = f"{_CALLED[operator]}({self._value(left)}, {self._value(right)}) is {wanted}"
                return f"((yield {STEP_COST}) or {compared})" if self._is_in_steps else f"({compared})"
        return self._is_so_of_one_name(condition, wanted)

    def _is_so_of_one_name(self, condition: Node, wanted: bool) -> str:
        self.leaves += 1
        match condition:
            case Name():
                return self._about(condition, f"{self._value(condition)} is True", wanted)
            case NullTest(name=name):
                return f"({'not ' * wanted}{_is_known(self._value(name))})"
            case Membership(name=name, members=members):
                return self._is_member(self._value(name), members, wanted)
            case Like(name=name, pattern=pattern, escape=escape):
                value, likeness = self._value(name), Likeness(pattern, escape)
                self.cost_of_letter += likeness.cost
                if self._is_in_steps:
                    asked = f"(yield from {self._constant(likeness.in_steps)}({value}))"
                else:
                    asked = f"{self._constant(likeness.matches)}({value})"
                return self._about(name, f"type({value}) is str and {asked}", wanted)
        raise AssertionError(f"{condition!r} is no condition")

    def _is_member(self, value: str, members: tuple[int | float | str, ...], wanted: bool) -> str:
        """A value of another kind than the members is neither in the list nor not in it."""
        of_kind = f"type({value}) is str" if isinstance(members[0], str) else f"type({value}) in NUMBERS and {value} == {value}"
        return f"({of_kind} and {value} {'in' if wanted else 'not in'} {self._constant(frozenset(members))})"

    def _joined(self, word: str, conditions: tuple[Node, ...], wanted: bool) -> str:
        return f"({word.join(self.is_so(condition, wanted) for condition in conditions)})"

    def _about(self, name: Name, is_true: str, wanted: bool) -> str:
        """A question about one value: it is FALSE if it is not TRUE, unless the value is NULL."""
        self.leaves += 1
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


class Compiled:
    """A condition as functions.

    `read` decodes the needed fields of a head; `holds(head, source, id_number, priority, trail)` says whether the condition is
    TRUE. An event costs at most `event_cost`, and `byte_cost` for each byte of its head.
    """

    __slots__ = ("_condition", "_in_steps", "byte_cost", "event_cost", "holds", "read", "reading_cost")

    def __init__(self, condition: Node) -> None:
        writer = Writer()
        known = _made(writer, condition)
        self.read: Callable[[bytes | memoryview], Any] = known["read"]
        self.holds: Callable[[Any, str, int, int, int], bool] = known["holds"]
        self.event_cost = _EVENT_COST + _LEAF_COST * writer.leaves
        self.reading_cost = 1 + len(writer.variables) // _NAMES_OF_ONE_COST
        self.byte_cost = self.reading_cost + writer.cost_of_letter
        self._condition = condition
        self._in_steps: Callable[[Any, str, int, int, int], Steps] | None = None

    @property
    def holds_in_steps(self) -> Callable[[Any, str, int, int, int], Steps]:
        """As `holds`, a generator that yields the cost of each step. Made when the first large event comes."""
        if self._in_steps is None:
            # The yield makes it a generator, whatever the condition.
            self._in_steps = _made(Writer(is_in_steps=True), self._condition, "(yield 0) or ")["holds"]
        assert self._in_steps is not None
        return self._in_steps


def _made(writer: Writer, condition: Node, before: str = "") -> dict[str, Any]:
    answer = writer.is_so(condition)
    loading = _loading(writer.variables)
    source = "\n    ".join(("def holds(head, source, id_number, priority, trail):", *loading, f"return {before}{answer}\n"))
    properties_type = _properties_type(writer.variables)
    known = writer.known | {"to_text": to_text, "nothing": properties_type()}
    known["read"] = msgspec.msgpack.Decoder(_head_type(writer.variables, properties_type)).decode
    exec(compile(source, "<selector>", "exec"), known)
    return known


def _loading(variables: dict[str, str]) -> list[str]:
    """The lines that put every named value into its variable."""
    attributes = [f"{variable} = {ATTRIBUTES[name].source}" for name, variable in variables.items() if name in ATTRIBUTES]
    properties = [f"{variable} = properties.{variable}" for name, variable in variables.items() if name not in ATTRIBUTES]
    return [*attributes, "properties = head.properties or nothing", *properties] if properties else attributes


def _head_type(variables: dict[str, str], properties_type: Any) -> type[msgspec.Struct]:
    """A struct that reads only the named fields from the bytes of a `Head`."""
    wanted = {field for name in variables if name in ATTRIBUTES for field in ATTRIBUTES[name].fields}
    if any(name not in ATTRIBUTES for name in variables):
        wanted.add("properties")
    fields = [
        (
            field.name,
            properties_type | None if field.name == "properties" else field.type,
            msgspec.field(default=field.default, name=field.encode_name),
        )
        for field in msgspec.structs.fields(Head)
        if field.name in wanted
    ]
    return msgspec.defstruct("SelectedHead", fields, gc=False)


def _properties_type(variables: dict[str, str]) -> Any:
    fields = [
        (variable, PropertyValue, msgspec.field(default=None, name=name))
        for name, variable in variables.items()
        if name not in ATTRIBUTES
    ]
    return msgspec.defstruct("SelectedProperties", fields, gc=False)
