"""An outgoing event: the head and body that travel, and the little that its batch must know.

The common case, data without fields, is fast: its head is the same but for the time, so it is joined from parts that were encoded
once. All other events become an `Event` first, with all its checks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypedDict, Unpack, cast

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
# A hundred years: more is a mistake, and times must fit 64 bits.
MILLISECONDS_MAX = 100 * 365 * 86_400 * 1000


class OwnFields(TypedDict, total=False):
    """The fields of an `Event` beside its data."""

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


class EventFields(OwnFields, total=False):
    """The fields that a send takes beside the data."""

    keep_id: bool  # send a received event on under its own id, not under a new one


class SentOn:
    """A received event, as far as sending it on goes. A class, not a protocol: every send looks for it."""

    __slots__ = ()

    def as_event(self, **fields: Unpack[EventFields]) -> Event:
        """Make a new event with the same content, and these fields."""
        raise NotImplementedError


class Outgoing(NamedTuple):
    head: bytes
    body: bytes
    priority: int = PRIORITY_DEFAULT
    delay_ms: int = 0
    expires_at_ms: int = 0
    has_group: bool = False
    id: str | None = None
    not_before_ms: int = 0  # by the server's clock; 0: at once

    @property
    def size(self) -> int:
        return len(self.head) + len(self.body)


def _around_time(datacontenttype: str) -> tuple[bytes, bytes]:
    """Encode the head of an event without fields: the bytes before and after the eight bytes of its time."""
    marker = 0x0102_0304_0506_0708
    before, found, after = encode_head(Head(time_us=marker, datacontenttype=datacontenttype)).partition(marker.to_bytes(8, "big"))
    assert found
    return before, after


_AROUND = {kind: _around_time(kind) for kind in (JSON, TEXT, BINARY)}
BEFORE_TIME, AFTER_TIME_OF_BINARY = _AROUND[BINARY]
FIELDS = tuple(OwnFields.__annotations__)
_EVENTS = (Event, SentOn)
_TEXTS = ("type", "source", "id", "subject", "datacontenttype", "dataschema", "group", "correlation_id", "reply_to")


def _machine_ms() -> int:
    return time.time_ns() // 1_000_000


def too_large(size: int) -> TooLarge:
    return TooLarge(
        f"an event of {size} bytes, head and data, is over the limit of {EVENT_BYTES_MAX}; "
        "send it with send_stream (from the shell: holdfast send --file)",
        size=size,
        limit=EVENT_BYTES_MAX,
    )


def prepare(data: Any, fields: EventFields, now_ms: Callable[[], int] = _machine_ms) -> Outgoing:
    """Encode an event to be sent. BadEvent or TooLarge, with what to do, if it cannot be. `now_ms` tells the server's time."""
    try:
        if isinstance(data, _EVENTS):
            made = _of_event(_with_fields(data, fields), now_ms)
        else:
            made = _of_event(Event(data=data, **_own(fields)), now_ms) if fields else _plain(data)
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


def _with_fields(event: Event | SentOn, fields: EventFields) -> Event:
    if isinstance(event, SentOn):
        return event.as_event(**fields)
    return msgspec.structs.replace(event, **_own(fields)) if fields else event


def _own(fields: EventFields) -> OwnFields:
    if "keep_id" in fields:
        raise BadEvent("keep_id is for a received event that is sent on; give any other event its id with id=…")
    return cast(OwnFields, fields)


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


def _of_event(event: Event, now_ms: Callable[[], int]) -> Outgoing:
    if event.time is not None or event.properties is not None:
        _check_shapes(event)
    if event.priority != PRIORITY_DEFAULT or type(event.priority) is not int or event.delay_ms or event.ttl_ms is not None:
        _check_numbers(event)
    head, body = to_head_and_body(event, server_ms=now_ms)
    encoded = encode_head(head)
    try:
        decode_head(encoded)  # do not send an event that no recipient could read
    except msgspec.ValidationError as problem:
        raise _not_text(event) or BadEvent(f"the event cannot be read again as it was given: {problem}") from problem
    not_before_ms = now_ms() + event.delay_ms if event.delay_ms else 0
    return Outgoing(
        encoded, body, event.priority, event.delay_ms, head.expires_at_ms, event.group is not None, event.id, not_before_ms
    )  # fmt: skip


def _not_text(event: Event) -> BadEvent | None:
    for name in _TEXTS:
        value = getattr(event, name)
        if value is not None and not isinstance(value, str):
            return BadEvent(f"{name} is text, not {type(value).__name__}; write {name}={str(value)!r}", field=name)
    return None
