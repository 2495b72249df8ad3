"""Arguments that a client gave, as what they should be: an error says which is missing or wrong, and what it should be."""

from __future__ import annotations

from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from holdfast.errors import BadSetting

Asked = TypeVar("Asked", bound=msgspec.Struct)


def convert(kind: type[Asked], given: dict[str, Any]) -> Asked:
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as problem:
        raise _explained(kind, given, problem) from problem


def _explained(kind: type[msgspec.Struct], given: dict[str, Any], problem: Exception) -> BadSetting:
    """An error that says which argument is missing or wrong, and what it should be."""
    types = get_type_hints(kind)
    for argument in kind.__struct_fields__:
        if argument not in given:
            if argument in _required(kind):
                return BadSetting(f"{argument} must be given, as {_said(types[argument])}", setting=argument)
            continue
        try:
            msgspec.convert(given[argument], types[argument])
        except msgspec.ValidationError:
            value = given[argument]
            return BadSetting(f"{argument} is {_said(types[argument])}, not {value!r:.40}", setting=argument)
    return BadSetting(f"these arguments cannot be read: {problem}")


def _required(kind: type[msgspec.Struct]) -> list[str]:
    return [field.name for field in msgspec.structs.fields(kind) if field.required]


def _said(annotation: Any) -> str:
    """A type, in words."""
    if get_origin(annotation) is Literal:
        *others, last = get_args(annotation)
        return f"{', '.join(others)} or {last}"
    words = {
        str: "text",
        bool: "true or false",
        bool | None: "true or false",
        int: "a whole number",
        int | None: "a whole number",
        str | None: "text",
        str | float | None: "a duration such as 10m, or a number of seconds",
        list[str]: "a list of texts",
        bytes: "ranges of positions, as bytes",
        tuple[str, str]: "a topic and a name",
    }
    return words.get(annotation, "something else")
