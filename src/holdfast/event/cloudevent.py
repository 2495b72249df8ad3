"""Events as CloudEvents 1.0, and back, in the terms of the official `cloudevents` package (requirement A1).

    CloudEvents                                     here
    id source type time subject                     the same
    datacontenttype dataschema data                 the same
    holdfastpriority                                priority, when it is not the default
    partitionkey                                    group
    correlationid                                   correlation_id
    holdfastreplyto                                 reply_to
    holdfastttlms, holdfastdelayms                  ttl_ms, delay_ms
    any other extension                             a property of the same name ("$" before one that begins with a digit)
    holdfastproperties                              a JSON object: the properties that an extension cannot carry as they are

Extension names are lower-case letters and digits, and HTTP headers turn every value into text. So a property becomes an extension
if its name and value allow it, for others to see. If that would lose its type, it is in `holdfastproperties` too. If such an
extension was changed on the way, the extension counts.

A time or a content type that an event does not have is not invented here: the client fills it in when the event is sent. A
received event keeps its id: a CloudEvent is the same event in other words.

HTTP messages are in `cloudevent_http`. The package is imported in these two modules only (the extra `cloudevents`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Protocol

from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.exceptions import BaseCloudEventException
from cloudevents.core.v1.event import CloudEvent

from holdfast.errors import BadEvent
from holdfast.event.event import (
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    Event,
    PropertyValue,
    check_properties,
    decode_data,
    encode_data,
)

PRIORITY = "holdfastpriority"
GROUP = "partitionkey"
CORRELATION_ID = "correlationid"
REPLY_TO = "holdfastreplyto"
TTL_MS = "holdfastttlms"
DELAY_MS = "holdfastdelayms"
PROPERTIES = "holdfastproperties"

_ATTRIBUTES = frozenset({"specversion", "id", "source", "type", "time", "subject", "datacontenttype", "dataschema", "data"})
_OURS = frozenset({PRIORITY, GROUP, CORRELATION_ID, REPLY_TO, TTL_MS, DELAY_MS, PROPERTIES})
_EXTENSION_NAME = re.compile(r"[a-z0-9]+\Z")
# Characters that a CloudEvents String may not contain: control characters, surrogates, and Unicode's noncharacters.
_NOT_IN_STRING = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_INT32_MIN, _INT32_MAX = -(1 << 31), (1 << 31) - 1
_INT64_MAX = (1 << 63) - 1


class _Received(Protocol):
    """A received event, of any client."""

    def as_event(self, *, keep_id: bool) -> Event: ...


AnyEvent = Event | _Received


def as_event(event: AnyEvent) -> Event:
    return event if isinstance(event, Event) else event.as_event(keep_id=True)


# --- out -----------------------------------------------------------------------------------------------------------------


def to_cloudevent(event: AnyEvent) -> CloudEvent:
    """The event in the package's terms. `id` and `source` must be known: those of a received event are."""
    found = as_event(event)
    body, datacontenttype = encode_data(found.data, found.datacontenttype)
    data = None if found.data is None else decode_data(body, datacontenttype)
    return checked_cloudevent(attributes_of(found), data)


def checked_cloudevent(attributes: dict[str, Any], data: Any) -> CloudEvent:
    """The package's own event, with checked attributes. The package would add the current time; that is taken out."""
    had_time = "time" in attributes
    try:
        made = CloudEvent(attributes, data)
    except BaseCloudEventException as problem:
        raise BadEvent(f"the event cannot be a CloudEvent: {problem}") from problem
    if not had_time:
        del made.get_attributes()["time"]
    return made


def attributes_of(event: Event) -> dict[str, Any]:
    """The attributes of the event, all but its data, by their names in CloudEvents."""
    if not event.id or not event.source:
        raise BadEvent("a CloudEvent has an id and a source; set both, or convert the event after it was received")
    known = {
        "specversion": "1.0",
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "time": event.time,
        "subject": event.subject,
        "datacontenttype": event.datacontenttype,
        "dataschema": event.dataschema,
        PRIORITY: event.priority if event.priority != PRIORITY_DEFAULT else None,
        GROUP: event.group,
        CORRELATION_ID: event.correlation_id,
        REPLY_TO: event.reply_to,
        TTL_MS: _integer_or_text(event.ttl_ms),
        DELAY_MS: _integer_or_text(event.delay_ms) or None,
    }
    return {name: value for name, value in known.items() if value is not None} | _extensions_of(event.properties or {})


def _integer_or_text(value: int | None) -> int | str | None:
    """A number as CloudEvents holds it: an Integer has 32 bits, larger numbers travel as text."""
    return value if value is None or value <= _INT32_MAX else str(value)


def _extensions_of(properties: Mapping[str, PropertyValue]) -> dict[str, Any]:
    checked = check_properties(properties)
    extensions: dict[str, Any] = {}
    for name, value in checked.items():
        extension = _extension_name(name)
        if extension is not None and _is_attribute_value(value):
            extensions[extension] = value
    apart = {
        name: value for name, value in checked.items() if not (_extension_name(name) in extensions and isinstance(value, str))
    }
    if apart:
        extensions[PROPERTIES] = json.dumps(apart)
    return extensions


def _extension_name(name: str) -> str | None:
    """The extension for a property; None when it cannot be one."""
    bare = name[1:] if name[:1] == "$" and name[1:2].isdigit() else name
    if _EXTENSION_NAME.match(bare) and bare not in _ATTRIBUTES and bare not in _OURS:
        return bare
    return None


def _is_attribute_value(value: PropertyValue) -> bool:
    if isinstance(value, str):
        return value != "" and not _NOT_IN_STRING.search(value)
    return isinstance(value, bool) or (isinstance(value, int) and _INT32_MIN <= value <= _INT32_MAX)


def text_of(value: Any) -> str:
    """A value as CloudEvents writes it: true and false in lower case, which the package would write as Python does."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- in ------------------------------------------------------------------------------------------------------------------


def from_cloudevent(cloudevent: BaseCloudEvent) -> Event:
    """The event in our terms; BadEvent for extensions of ours with wrong values."""
    attributes = cloudevent.get_attributes()
    datacontenttype = attributes.get("datacontenttype")
    data: Any = cloudevent.get_data()
    if isinstance(data, bytes | bytearray):
        data = bytes(data) if datacontenttype is None else decode_data(bytes(data), datacontenttype)
    return Event(
        data=data,
        type=cloudevent.get_type(),
        source=cloudevent.get_source(),
        id=cloudevent.get_id(),
        time=cloudevent.get_time(),
        subject=cloudevent.get_subject(),
        datacontenttype=datacontenttype,
        dataschema=cloudevent.get_dataschema(),
        properties=_properties_of(attributes) or None,
        priority=_number(attributes, PRIORITY, 0, PRIORITY_MAX, PRIORITY_DEFAULT),
        ttl_ms=_number(attributes, TTL_MS, 1, _INT64_MAX, 0) or None,
        delay_ms=_number(attributes, DELAY_MS, 0, _INT64_MAX, 0),
        group=_optional_text(attributes, GROUP),
        correlation_id=_optional_text(attributes, CORRELATION_ID),
        reply_to=_optional_text(attributes, REPLY_TO),
    )


def _optional_text(attributes: Mapping[str, Any], name: str) -> str | None:
    return text_of(attributes[name]) if name in attributes else None


def _number(attributes: Mapping[str, Any], name: str, least: int, most: int, default: int) -> int:
    if name not in attributes:
        return default
    text = text_of(attributes[name])
    if not re.fullmatch(r"\d{1,19}", text, re.ASCII) or not least <= int(text) <= most:
        raise BadEvent(f"extension {name} is {text!r}; it must be a number from {least} to {most}", extension=name)
    return int(text)


def _properties_of(attributes: Mapping[str, Any]) -> dict[str, PropertyValue]:
    extensions = {name: value for name, value in attributes.items() if name not in _ATTRIBUTES and name not in _OURS}
    properties: dict[str, PropertyValue] = {
        f"${name}" if name[0].isdigit() else name: value for name, value in extensions.items()
    }
    for name, value in _properties_apart(attributes).items():
        if name not in properties or text_of(properties[name]) == text_of(value):
            properties[name] = value
    return check_properties(properties)


def _properties_apart(attributes: Mapping[str, Any]) -> dict[str, Any]:
    try:
        apart = json.loads(attributes.get(PROPERTIES, "{}"))
    except (ValueError, TypeError, RecursionError) as problem:
        raise BadEvent(f"extension {PROPERTIES} is not a JSON object ({problem})", extension=PROPERTIES) from problem
    if not isinstance(apart, dict):
        raise BadEvent(f"extension {PROPERTIES} is not a JSON object", extension=PROPERTIES)
    return apart
