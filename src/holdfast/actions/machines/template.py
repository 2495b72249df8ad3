"""Templates: text with fields of an alert in braces.

    {summary}  {rule}  {severity}  {reason}  {key}  {keys}  {group}  {count}  {suppressed}  {at}  {id}      of the alert
    {host}  {type}  {data.disk.free}  {properties.rule}                                                     of its newest event
    {host|nobody}                                                                                           or this, if missing
    {{  }}                                                                                                  a brace

A template is text, never a program: it has no calls, no loops, no access to anything else. A field that is missing is empty text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from holdfast.actions.machines.seen import field_of, key_text

OF_ALERT = ("summary", "rule", "severity", "reason", "key", "keys", "group", "count", "suppressed", "at", "id")
_FIELD = re.compile(r"[A-Za-z_$][\w$]*(?:\.[\w$-]+)*\Z")


class BadTemplate(Exception):
    """A template that cannot be read. `column` counts from 1."""

    def __init__(self, sentence: str, column: int) -> None:
        super().__init__(sentence)
        self.column = column


class Field(NamedTuple):
    name: str
    otherwise: str


class Template:
    """Text to be filled in. BadTemplate says what is wrong with it, and at which column."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.parts = tuple(_parts(text))

    def fill(self, fields: Mapping[str, Any], example: Mapping[str, Any]) -> str:
        """The text with the fields of an alert, and of the example that is its newest event."""
        return "".join(part if isinstance(part, str) else _filled(part, fields, example) for part in self.parts)

    @property
    def names(self) -> list[str]:
        return [part.name for part in self.parts if isinstance(part, Field)]


def _filled(part: Field, fields: Mapping[str, Any], example: Mapping[str, Any]) -> str:
    value = fields[part.name] if part.name in OF_ALERT and part.name in fields else field_of(example, part.name)
    if isinstance(value, list):
        return ", ".join(map(key_text, value)) or part.otherwise
    return key_text(value) or part.otherwise


def _parts(text: str) -> list[str | Field]:
    parts: list[str | Field] = []
    plain, place = "", 0
    while place < len(text):
        letter = text[place]
        if letter in "{}" and text[place : place + 2] == letter * 2:
            plain, place = plain + letter, place + 2
        elif letter == "{":
            end = text.find("}", place)
            if end < 0:
                raise BadTemplate("this brace is never closed; write {{ for a brace", place + 1)
            if plain:
                parts.append(plain)
            parts.append(_field(text[place + 1 : end], place + 2))
            plain, place = "", end + 1
        elif letter == "}":
            raise BadTemplate("this brace was never opened; write }} for a brace", place + 1)
        else:
            plain, place = plain + letter, place + 1
    return [*parts, plain] if plain else parts


def _field(text: str, column: int) -> Field:
    name, _, otherwise = text.partition("|")
    if not _FIELD.match(name):
        raise BadTemplate(f"{name!r:.40} is not a field; write one like {{host}}, {{data.disk}} or {{count}}", column)
    return Field(name, otherwise)
