"""An event as rules see it, and the fields of it that a rule or a template may name.

    host, percent …                         a property
    type source subject id group            an attribute; also destination, time, priority and correlation_id
    properties.type                         a property that has the name of an attribute
    data.disk.free, data.0                  a part of the data, where that is JSON

A field that an event does not have is None.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

# The property that counts how often an event was made by a rule from another one.
HOPS = "holdfast_hops"
ATTRIBUTES = ("type", "source", "subject", "id", "group", "destination", "time", "priority", "correlation_id")
# An example has at most so many bytes as JSON, so that an alert fits an event: data, then properties are left out.
EXAMPLE_BYTES_MAX = 8_192
# A longer key is cut, and told apart by a digest.
KEY_LENGTH_MAX = 200


# What can be read from JSON cannot always be written again: it may be nested too deep.
NOT_WRITABLE = (RecursionError, UnicodeEncodeError, ValueError, TypeError)
NOT_SHOWN = "…"


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One event. `at_us` is the time of its acceptance, by the server's clock."""

    at_us: int
    position: int = 0
    id: str = ""
    source: str = ""
    type: str = "event"
    subject: str | None = None
    time: str = ""
    destination: str = ""
    priority: int = 4
    group: str | None = None
    correlation_id: str | None = None
    properties: Mapping[str, Any] = {}
    data: Any = None

    @property
    def hops(self) -> int:
        """How many rules it has come through."""
        hops = self.properties.get(HOPS, 0)
        return hops if type(hops) is int and hops > 0 else 0

    def example(self) -> dict[str, Any]:
        """The event as an alert keeps it."""
        shown: dict[str, Any] = {name: value for name in ATTRIBUTES if (value := getattr(self, name)) not in (None, "")}
        for name, value in (("properties", dict(self.properties) or None), ("data", self.data)):
            if value is None or isinstance(value, bytes):
                continue
            if _json_bytes({**shown, name: value}) <= EXAMPLE_BYTES_MAX:
                shown[name] = value
            else:
                shown[f"{name}_left_out"] = True
        return {name: key_of(value) if isinstance(value, str) and name != "data" else value for name, value in shown.items()}


def field_of(example: Mapping[str, Any], name: str) -> Any:
    """The field of an event that was kept as an example; None if it has none."""
    first, _, rest = name.partition(".")
    if first == "data" and rest:
        return within(example.get("data"), rest)
    if first == "properties" and rest:
        return example.get("properties", {}).get(rest)
    if name in ATTRIBUTES or name == "data":
        return example.get(name)
    return example.get("properties", {}).get(name)


def field_of_event(event: Seen, name: str) -> Any:
    """The field of an event; None if it has none."""
    if name in ATTRIBUTES:
        return getattr(event, name)
    if name == "data":
        return event.data
    if name.startswith("data."):
        return within(event.data, name[5:])
    return event.properties.get(name.removeprefix("properties."))


def within(value: Any, path: str) -> Any:
    """A part of data: names of objects and numbers of lists, with dots between."""
    for step in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and len(step) < 10 and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def key_of(value: Any) -> str:
    """A value as a key of bounded length."""
    text = key_text(value)
    if len(text) <= KEY_LENGTH_MAX:
        return text
    return f"{text[:KEY_LENGTH_MAX]}…{hashlib.blake2s(text.encode(errors='replace'), digest_size=6).hexdigest()}"


def key_text(value: Any) -> str:
    """A value as text: text as it is, anything else as JSON; "" for none."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except NOT_WRITABLE:
        return NOT_SHOWN


def _json_bytes(value: Any) -> int:
    """How large a value is as JSON; larger than anything if it cannot be written."""
    try:
        return len(msgspec.json.encode(value))
    except NOT_WRITABLE:
        return EXAMPLE_BYTES_MAX + 1
