"""An event as rules see it, and the fields of it that a rule or a template may name.

    host, percent …                         a property
    type source subject id group            an attribute; also destination, time, priority and correlation_id
    properties.type                         a property that has the name of an attribute
    data.disk.free, data.0                  a part of the data, where that is JSON

A field that an event does not have is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

# The property that counts how often an event was made by a rule from another one.
HOPS = "holdfast_hops"
ATTRIBUTES = ("type", "source", "subject", "id", "group", "destination", "time", "priority", "correlation_id")
# Of an event that is kept as an example, the data is left out where it is larger than this.
DATA_BYTES_MAX = 4_096


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
        if self.properties:
            shown["properties"] = dict(self.properties)
        if self.data is not None and not isinstance(self.data, bytes):
            if len(msgspec.json.encode(self.data)) <= DATA_BYTES_MAX:
                shown["data"] = self.data
            else:
                shown["data_left_out"] = True
        return shown


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
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def key_text(value: Any) -> str:
    """A value as a key: text as it is, anything else as JSON; "" for none."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
