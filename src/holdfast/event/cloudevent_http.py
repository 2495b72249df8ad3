"""CloudEvents as HTTP messages, in the three modes of the HTTP binding 1.0.2; the Content-Type says which.

    application/cloudevents-batch+json     batched       a JSON array of events
    application/cloudevents+json           structured    one event as a JSON object; `ce-` headers beside it mean nothing
    anything else, or none                 binary        attributes in `ce-` headers, the data as it is in the body

The official package checks attributes and writes headers. Messages are read, and JSON is written, here, because its release 2.2

- reads a structured message that also has `ce-` headers as a binary one, and an unknown event format as JSON;
- knows no batched mode;
- invents a missing `id`, `specversion` or `time`, and fails at attributes that are `null`, which means unset;
- does not unescape quoted header values, and replaces bytes that are not UTF-8;
- reads a time that RFC 3339 does not know, and Base64 with foreign characters in it;
- writes a JSON value under `application/JSON` as Python's text of it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import unquote

import msgspec
from cloudevents.core.bindings import http
from cloudevents.core.formats.json import JSONFormat

from holdfast.errors import BadEvent
from holdfast.event.cloudevent import AnyEvent, as_event, attributes_of, checked_cloudevent, from_cloudevent, text_of
from holdfast.event.event import BINARY, Event, decode_data, encode_data

Mode = Literal["binary", "structured", "batched"]

STRUCTURED_TYPE = "application/cloudevents+json"
BATCHED_TYPE = "application/cloudevents-batch+json"

_REQUIRED = ("specversion", "id", "source", "type")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"\Z', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class HttpMessage(NamedTuple):
    headers: dict[str, str]
    body: bytes


# --- out -----------------------------------------------------------------------------------------------------------------


def to_http(event: AnyEvent, mode: Literal["binary", "structured"] = "binary") -> HttpMessage:
    """The event as the headers and body of an HTTP request. `id` and `source` must be known: those of a received event are."""
    if mode == "structured":
        return HttpMessage({"content-type": STRUCTURED_TYPE}, _as_json(_envelope(as_event(event))))
    return _binary(as_event(event))


def to_http_batch(events: Iterable[AnyEvent]) -> HttpMessage:
    """Any number of events, or none, as the headers and body of one HTTP request."""
    return HttpMessage({"content-type": BATCHED_TYPE}, _as_json([_envelope(as_event(event)) for event in events]))


def _binary(event: Event) -> HttpMessage:
    body, datacontenttype = encode_data(event.data, event.datacontenttype)
    attributes = attributes_of(event)
    if event.data is not None and not (event.datacontenttype is None and datacontenttype == BINARY):
        attributes["datacontenttype"] = datacontenttype  # only this tells text and JSON from bytes
    texts = {name: text_of(value) if isinstance(value, bool) else value for name, value in attributes.items()}
    try:
        message = http.to_binary(checked_cloudevent(texts, body), JSONFormat())
    except UnicodeEncodeError as problem:
        raise BadEvent(f"the event has text that UTF-8 cannot hold ({problem})") from problem
    return HttpMessage(message.headers, message.body)


def _envelope(event: Event) -> dict[str, Any]:
    body, datacontenttype = encode_data(event.data, event.datacontenttype)
    attributes = checked_cloudevent(attributes_of(event), None).get_attributes()
    if "time" in attributes:
        attributes["time"] = attributes["time"].astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"
    data = None if event.data is None else decode_data(body, datacontenttype)
    if isinstance(data, bytes):
        return attributes | {"data_base64": base64.b64encode(data).decode()}
    return attributes | ({} if data is None else {"data": data})


def _as_json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError as problem:
        raise BadEvent(f"the event has text that UTF-8 cannot hold ({problem})") from problem


# --- in ------------------------------------------------------------------------------------------------------------------


def from_http(headers: Mapping[str, str], body: bytes) -> Event:
    """The event in a binary or structured HTTP message; BadEvent when there is none."""
    names = {name.lower(): value for name, value in headers.items()}
    mode = _mode(names)
    if mode == "batched":
        raise BadEvent("this is a batch of CloudEvents; read it with from_http_batch", mode=mode)
    return _from_envelope(_json(body), mode) if mode == "structured" else _from_binary(names, body)


def from_http_batch(headers: Mapping[str, str], body: bytes) -> list[Event]:
    """The events in an HTTP message of any mode: those of a batch, or the one event. BadEvent when one is none."""
    names = {name.lower(): value for name, value in headers.items()}
    if _mode(names) != "batched":
        return [from_http(headers, body)]
    found = _json(body)
    if not isinstance(found, list):
        raise BadEvent(f"a batch of CloudEvents is a JSON array, not {_kind(found)}", mode="batched")
    return [_from_envelope(envelope, "batched") for envelope in found]


def _mode(headers: Mapping[str, str]) -> Mode:
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media == BATCHED_TYPE:
        return "batched"
    if media == STRUCTURED_TYPE:
        return "structured"
    if media.startswith("application/cloudevents"):
        raise BadEvent(
            f"event format {media!r} is not known; send {STRUCTURED_TYPE}, {BATCHED_TYPE}, or binary mode", datacontenttype=media
        )
    if not any(name.startswith(http.CE_PREFIX) for name in headers):
        raise BadEvent(f"this is no CloudEvent: it has neither ce- headers nor the Content-Type {STRUCTURED_TYPE}")
    return "binary"


def _from_binary(headers: Mapping[str, str], body: bytes) -> Event:
    attributes: dict[str, Any] = {
        name.removeprefix(http.CE_PREFIX): _header_value(name, value)
        for name, value in headers.items()
        if name.startswith(http.CE_PREFIX)
    }
    if "datacontenttype" in attributes:
        raise BadEvent("the content type of a binary CloudEvent is its Content-Type; take the header ce-datacontenttype out")
    if "content-type" in headers:
        attributes["datacontenttype"] = headers["content-type"]
    return _checked(attributes, body or None, "binary")


def _header_value(name: str, value: str) -> str:
    """Undo quotes first, then percent signs (section 3.1.3.2 of the binding)."""
    quoted = _QUOTED.match(value.strip())
    try:
        return unquote(_ESCAPED.sub(r"\1", quoted[1]) if quoted else value, errors="strict")
    except UnicodeDecodeError as problem:
        raise BadEvent(
            f"header {name} is not UTF-8 once its percent signs are undone ({problem.reason})", header=name
        ) from problem


def _from_envelope(envelope: Any, mode: Mode) -> Event:
    if not isinstance(envelope, dict):
        raise BadEvent(f"a CloudEvent in {mode} mode is a JSON object, not {_kind(envelope)}", mode=mode)
    attributes = {name: value for name, value in envelope.items() if value is not None and name not in ("data", "data_base64")}
    data, encoded = envelope.get("data"), envelope.get("data_base64")
    if encoded is None:
        return _checked(attributes, data, mode)
    if data is not None:
        raise BadEvent("a CloudEvent has data or data_base64, not both", mode=mode)
    try:
        return _checked(attributes, base64.b64decode(encoded, validate=True), mode)
    except (ValueError, TypeError) as problem:
        raise BadEvent(f"data_base64 is not Base64 ({problem})", mode=mode) from problem


def _checked(attributes: dict[str, Any], data: Any, mode: Mode) -> Event:
    missing = [name for name in _REQUIRED if name not in attributes]
    if missing:
        raise BadEvent(f"this is not a CloudEvent 1.0 in {mode} mode: it has no {' and no '.join(missing)}", mode=mode)
    if "time" in attributes:
        attributes["time"] = _moment(attributes["time"])
    return from_cloudevent(checked_cloudevent(attributes, data))


def _moment(text: Any) -> datetime:
    try:
        return msgspec.convert(text, _Moment) if isinstance(text, str) else _refuse_time(text)
    except msgspec.ValidationError:
        return _refuse_time(text)


def _refuse_time(text: Any) -> datetime:
    raise BadEvent(f"time {text!r:.60} is no time of RFC 3339, such as '2026-03-01T12:00:00Z'", attribute="time")


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise BadEvent(f"the body is not JSON in UTF-8: {problem}") from problem


def _kind(value: Any) -> str:
    return {list: "an array", dict: "an object", str: "text", type(None): "null"}.get(type(value), "a number or a truth value")
