"""From the condition of a selector to one Python function over what it names of an event, and nothing else.

`amount > 100 AND region = 'eu'` becomes

    def holds(head, source, id_number, priority):
        properties = head.properties or nothing
        v0 = properties.v0
        v1 = properties.v1
        return ((type(v0) in NUMBERS and v0 > 100) and (v1 == 'eu'))

and `head` is not the whole head either: it is decoded into a struct made for this selector, which has the fields and properties
that it names. The rest of the head is skipped where it lies: a third of the time, and no objects that nobody looks at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from holdfast.event.event import Head, PropertyValue
from holdfast.event.identifier import to_text
from holdfast.event.selector.attributes import ATTRIBUTES
from holdfast.event.selector.tree import Node
from holdfast.event.selector.writing import Writer


class Compiled(NamedTuple):
    """`read` decodes what is needed of a head; `holds(head, source, id_number, priority)` is whether the condition is TRUE."""

    read: Callable[[bytes | memoryview], Any]
    holds: Callable[[Any, str, int, int], bool]


def compiled(condition: Node) -> Compiled:
    writer = Writer()
    answer = writer.is_so(condition)
    source = "\n    ".join(("def holds(head, source, id_number, priority):", *_loading(writer.variables), f"return {answer}\n"))
    properties_type = _properties_type(writer.variables)
    known = writer.known | {"to_text": to_text, "nothing": properties_type()}
    exec(compile(source, "<selector>", "exec"), known)
    return Compiled(msgspec.msgpack.Decoder(_head_type(writer.variables, properties_type)).decode, known["holds"])


def _loading(variables: dict[str, str]) -> list[str]:
    """The lines that put every named value into its variable."""
    attributes = [f"{variable} = {ATTRIBUTES[name].source}" for name, variable in variables.items() if name in ATTRIBUTES]
    properties = [f"{variable} = properties.{variable}" for name, variable in variables.items() if name not in ATTRIBUTES]
    return [*attributes, "properties = head.properties or nothing", *properties] if properties else attributes


def _head_type(variables: dict[str, str], properties_type: Any) -> type[msgspec.Struct]:
    """A struct that reads from the bytes of a `Head` what is named."""
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
