"""From what a program sends to what travels: head, body, and the little that its batch must know.

The common case, data and nothing else, takes a short way: its head is the same but for the time, so it is put together from
parts that were encoded once. Everything else goes by way of `Event`, with all its checks.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypedDict

import msgspec

from holdfast.errors import BadEvent, TooLarge
from holdfast.event.event import (
    BINARY,
    JSON,
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    TEXT,
    Event,
    Head,
    PropertyValue,
    decode_head,
    encode_data,
    encode_head,
    to_head_and_body,
)

# A batch of one event must fit a command of 1 MiB + 4 KiB: the rest is for the batch's own head, its source, and names.
EVENT_BYTES_MAX = (1 << 20) - 1024
# A hundred years: what lies further ahead is a mistake, and times must fit 64 bits.
MILLISECONDS_MAX = 100 * 365 * 86_400 * 1000


class EventFields(TypedDict, total=False):
    """What may be said of an event beside its data; the fields of `Event`."""

    type: str
    source: str | None
    id: str | None
    time: datetime | None
    subject: str | None
    datacontenttype: str | None
    dataschema: str | None
    properties: dict[str, PropertyValue] | None
    priority: int
    ttl_ms: int | None
    delay_ms: int
    group: str | None
    correlation_id: str | None
    reply_to: str | None


class Outgoing(NamedTuple):
    head: bytes
    body: bytes
    priority: int = PRIORITY_DEFAULT
    delay_ms: int = 0
    expires_at_ms: int = 0
    has_group: bool = False
    id: str | None = None


def _around_time(datacontenttype: str) -> tuple[bytes, bytes]:
    """What stands before and after the eight bytes of the time in the head of an event that has nothing but data."""
    marker = 0x0102_0304_0506_0708
    before, found, after = encode_head(Head(time_us=marker, datacontenttype=datacontenttype)).partition(marker.to_bytes(8, "big"))
    assert found
    return before, after


_AROUND = {kind: _around_time(kind) for kind in (JSON, TEXT, BINARY)}
BEFORE_TIME, AFTER_TIME_OF_BINARY = _AROUND[BINARY]
FIELDS = tuple(EventFields.__annotations__)
_TEXTS = ("type", "source", "id", "subject", "datacontenttype", "dataschema", "group", "correlation_id", "reply_to")


def too_large(size: int) -> TooLarge:
    return TooLarge(
        f"an event of {size} bytes, head and data, is over the limit of {EVENT_BYTES_MAX}; "
        "send it with send_stream (from the shell: holdfast send --file)",
        size=size,
        limit=EVENT_BYTES_MAX,
    )


def prepare(data: Any, fields: EventFields) -> Outgoing:
    """BadEvent or TooLarge, with what to do, for what cannot be sent."""
    try:
        if isinstance(data, Event):
            made = _of_event(msgspec.structs.replace(data, **fields) if fields else data)
        else:
            made = _of_event(Event(data=data, **fields)) if fields else _plain(data)
    except UnicodeEncodeError as problem:
        raise BadEvent(
            f"text that is not valid Unicode cannot be sent ({problem.reason} at {problem.start}); send it as bytes"
        ) from problem
    except TypeError as problem:
        raise BadEvent(f"{problem}; an event has data and {', '.join(FIELDS)}") from problem
    size = len(made.head) + len(made.body)
    if size > EVENT_BYTES_MAX:
        raise too_large(size)
    return made


def _plain(data: Any) -> Outgoing:
    body, datacontenttype = encode_data(data, None)
    before, after = _AROUND[datacontenttype]
    return Outgoing(before + (time.time_ns() // 1000).to_bytes(8, "big") + after, body)


def _check_numbers(event: Event) -> None:
    for name, value in (("priority", event.priority), ("delay_ms", event.delay_ms), ("ttl_ms", event.ttl_ms)):
        if value is None and name == "ttl_ms":
            continue
        most = PRIORITY_MAX if name == "priority" else MILLISECONDS_MAX
        if not isinstance(value, int) or value > most:
            raise BadEvent(f"{name} {value!r:.40} is not possible; give a whole number up to {most}", field=name)


def _check_shapes(event: Event) -> None:
    if event.time is not None and not isinstance(event.time, datetime):
        raise BadEvent(f"time is a datetime with a time zone, not {type(event.time).__name__}; use datetime.now(timezone.utc)")
    if event.properties is not None and not isinstance(event.properties, Mapping):
        raise BadEvent(f"properties are names with values, not {type(event.properties).__name__}; use a dict")


def _of_event(event: Event) -> Outgoing:
    if event.time is not None or event.properties is not None:
        _check_shapes(event)
    if event.priority != PRIORITY_DEFAULT or event.delay_ms or event.ttl_ms is not None:
        _check_numbers(event)
    head, body = to_head_and_body(event)
    encoded = encode_head(head)
    try:
        decode_head(encoded)  # what no recipient could read is not sent
    except msgspec.ValidationError as problem:
        raise _not_text(event) or BadEvent(f"the event cannot be read again as it was given: {problem}") from problem
    return Outgoing(encoded, body, event.priority, event.delay_ms, head.expires_at_ms, event.group is not None, event.id)


def _not_text(event: Event) -> BadEvent | None:
    for name in _TEXTS:
        value = getattr(event, name)
        if value is not None and not isinstance(value, str):
            return BadEvent(f"{name} is text, not {type(value).__name__}; write {name}={str(value)!r}", field=name)
    return None
