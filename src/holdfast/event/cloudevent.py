"""Events as CloudEvents 1.0, and back: in the terms of the official `cloudevents` package, and as HTTP messages (requirement A1).

    CloudEvents                                     here
    id source type time subject                     the same
    datacontenttype dataschema data                 the same; data without a content type is JSON
    holdfastpriority                                priority, when it is not the default
    partitionkey                                    group
    correlationid                                   correlation_id
    holdfastreplyto                                 reply_to
    holdfastttlms, holdfastdelayms                  ttl_ms, delay_ms
    any other extension                             a property of the same name ("$" before one that begins with a digit)
    holdfastproperties                              a JSON object: the properties that an extension cannot carry as they are

Extension names are lower-case letters and digits, and HTTP headers turn every value into text. So a property becomes an extension
where its name and value allow it, for others to see; and if that would lose its type, it stands in `holdfastproperties`
too. If somebody on the way changed such an extension, the extension counts.

The package is imported here only (the extra `cloudevents`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings import http
from cloudevents.core.exceptions import BaseCloudEventException
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from holdfast.errors import BadEvent
from holdfast.event.event import (
    JSON,
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
# What a CloudEvents String may not contain: control characters, surrogates, and what Unicode calls noncharacters.
_NOT_IN_STRING = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_INT32_MIN, _INT32_MAX = -(1 << 31), (1 << 31) - 1
_INT64_MAX = (1 << 63) - 1

# What the package raises at input that is not a CloudEvent, down to a JSON array where it expects an object.
_FOREIGN = (BaseCloudEventException, ValueError, TypeError, AttributeError, KeyError)


class HttpMessage(NamedTuple):
    headers: dict[str, str]
    body: bytes


# --- out -----------------------------------------------------------------------------------------------------------------


def to_cloudevent(event: Event) -> CloudEvent:
    """The event in the package's terms. `id` and `source` must be known: those of a received event are."""
    body, datacontenttype = encode_data(event.data, event.datacontenttype)
    attributes = _attributes_of(event, datacontenttype)
    data = None if event.data is None else decode_data(body, datacontenttype)
    try:
        return CloudEvent(attributes, data)
    except BaseCloudEventException as problem:
        raise BadEvent(f"the event cannot be a CloudEvent: {problem}") from problem


def _attributes_of(event: Event, datacontenttype: str) -> dict[str, Any]:
    if not event.id or not event.source:
        raise BadEvent("a CloudEvent has an id and a source; set both, or convert the event after it was received")
    known = {
        "specversion": "1.0",
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "time": event.time,
        "subject": event.subject,
        "datacontenttype": datacontenttype,
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
    """A CloudEvents Integer has 32 bits; what is larger travels as text."""
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


def to_http(event: Event, mode: Literal["binary", "structured"] = "binary") -> HttpMessage:
    """The event as the headers and body of an HTTP request."""
    found = to_cloudevent(event)
    try:
        if mode == "structured":
            message = http.to_structured(found, JSONFormat())
        else:
            body, _ = encode_data(event.data, event.datacontenttype)
            message = http.to_binary(CloudEvent(_as_texts(found.get_attributes()), body), JSONFormat())
    except UnicodeEncodeError as problem:
        raise BadEvent(f"the event has text that UTF-8 cannot hold ({problem})") from problem
    return HttpMessage(message.headers, message.body)


def _as_texts(attributes: dict[str, Any]) -> dict[str, Any]:
    """CloudEvents writes truth in lower case, where the package would write Python's."""
    return {name: _text(value) if isinstance(value, bool) else value for name, value in attributes.items()}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- in ------------------------------------------------------------------------------------------------------------------


def from_http(headers: Mapping[str, str], body: bytes) -> Event:
    """The event in an HTTP request of either mode; BadEvent when there is none."""
    message = http.HTTPMessage(dict(headers), body)
    is_binary = any(name.lower().startswith(http.CE_PREFIX) for name in headers)
    try:
        if is_binary:
            attributes = http.from_binary(message, JSONFormat(), CloudEvent).get_attributes()
            found: BaseCloudEvent = CloudEvent(attributes, body or None)
        else:
            found = http.from_structured(message, JSONFormat(), CloudEvent)
    except _FOREIGN as problem:
        raise BadEvent(f"this is not a CloudEvent 1.0 in {'binary' if is_binary else 'structured'} mode: {problem}") from problem
    return from_cloudevent(found)


def from_cloudevent(cloudevent: BaseCloudEvent) -> Event:
    """The event in our terms; BadEvent for extensions of ours that do not hold what they should."""
    attributes = cloudevent.get_attributes()
    datacontenttype = attributes.get("datacontenttype")
    data = cloudevent.get_data()
    if isinstance(data, bytes | bytearray) and datacontenttype is not None:
        data = decode_data(bytes(data), datacontenttype)
    elif data is not None and not isinstance(data, bytes | bytearray) and datacontenttype is None:
        datacontenttype = JSON
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
    return _text(attributes[name]) if name in attributes else None


def _number(attributes: Mapping[str, Any], name: str, least: int, most: int, default: int) -> int:
    if name not in attributes:
        return default
    text = _text(attributes[name])
    if not re.fullmatch(r"\d{1,19}", text, re.ASCII) or not least <= int(text) <= most:
        raise BadEvent(f"extension {name} is {text!r}; it must be a number from {least} to {most}", extension=name)
    return int(text)


def _properties_of(attributes: Mapping[str, Any]) -> dict[str, PropertyValue]:
    extensions = {name: value for name, value in attributes.items() if name not in _ATTRIBUTES and name not in _OURS}
    properties: dict[str, PropertyValue] = {
        f"${name}" if name[0].isdigit() else name: value for name, value in extensions.items()
    }
    for name, value in _properties_apart(attributes).items():
        if name not in properties or _text(properties[name]) == _text(value):
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
