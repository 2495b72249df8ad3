"""An event: when it was recognised, who recognised it, its nature, its details.

The attributes are those of CloudEvents 1.0 (`id source type time subject datacontenttype dataschema data`), and beside them
what a messaging system needs: `properties` for selectors, `priority`, `ttl_ms`, `group`, `correlation_id`, `reply_to`.

    Event     what a program makes and sends
    Head      what travels of it, apart from its body: small, decoded only when somebody looks
    body      the data as bytes; opaque to everything between producer and recipient

Head and body are kept apart so that a selector or a group reads heads only, and nothing else reads anything.
"""

from __future__ import annotations

import re
import time as _time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from holdfast.errors import BadEvent

PropertyValue = bool | int | float | str | None
PRIORITY_DEFAULT = 4
PRIORITY_MAX = 9
TYPE_DEFAULT = "event"
JSON = "application/json"
TEXT = "text/plain"
BINARY = "application/octet-stream"

_PROPERTY_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")
# Made once: a union that is built at every call costs more than the check.
_BYTES = (bytes, bytearray, memoryview)
_PROPERTY_TYPES = (bool, int, float, str, type(None))
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


class LargeBody(msgspec.Struct, array_like=True, frozen=True):
    """What is known of a body that is kept in fragments, all `fragment_bytes` long but the last."""

    size: int  # in bytes
    fragment_bytes: int
    digest: bytes  # SHA-256


class Head(msgspec.Struct, gc=False, omit_defaults=True, kw_only=True):
    """What travels of an event apart from its body. One-letter names on the wire: heads are most of a small event."""

    type: str = msgspec.field(default=TYPE_DEFAULT, name="t")
    time_us: int = msgspec.field(default=0, name="m")
    id: str | None = msgspec.field(default=None, name="i")  # only when it is not the batch's first id + index
    source: str | None = msgspec.field(default=None, name="s")  # only when it is not the batch's source
    subject: str | None = msgspec.field(default=None, name="j")
    datacontenttype: str = msgspec.field(default=JSON, name="c")
    dataschema: str | None = msgspec.field(default=None, name="a")
    properties: dict[str, PropertyValue] | None = msgspec.field(default=None, name="p")
    group: str | None = msgspec.field(default=None, name="g")
    correlation_id: str | None = msgspec.field(default=None, name="r")
    reply_to: str | None = msgspec.field(default=None, name="y")
    expires_at_ms: int = msgspec.field(default=0, name="x")
    large: LargeBody | None = msgspec.field(default=None, name="l")  # then the body is empty, and lies in fragments


_head_encoder = msgspec.msgpack.Encoder()
_head_decoder = msgspec.msgpack.Decoder(Head)
_heads_decoder = msgspec.msgpack.Decoder(list[Head])
_json_encoder = msgspec.json.Encoder()
_ARRAY_OF = b"\xdd"  # MessagePack: an array with a length of four bytes
encode_head = _head_encoder.encode
decode_head = _head_decoder.decode


def decode_heads(heads: bytes | memoryview, count: int) -> list[Head]:
    """So many heads that lie one behind the other, in one go."""
    return _heads_decoder.decode(b"".join((_ARRAY_OF, count.to_bytes(4, "big"), heads)))


class Event(msgspec.Struct, kw_only=True, eq=True):
    """What a program sends. Everything but `data` may be left out; `id`, `source` and `time` are then filled in by the sender."""

    data: Any = None
    type: str = TYPE_DEFAULT
    source: str | None = None
    id: str | None = None
    time: datetime | None = None
    subject: str | None = None
    datacontenttype: str | None = None
    dataschema: str | None = None
    properties: Mapping[str, PropertyValue] | None = None
    priority: int = PRIORITY_DEFAULT
    ttl_ms: int | None = None
    delay_ms: int = 0
    group: str | None = None
    correlation_id: str | None = None
    reply_to: str | None = None


def encode_data(data: Any, datacontenttype: str | None) -> tuple[bytes, str]:
    """The body of an event and what it is: bytes as they are, text as UTF-8, anything else as JSON."""
    if data is None:
        return b"", datacontenttype or JSON
    if isinstance(data, _BYTES):
        return bytes(data), datacontenttype or BINARY
    if isinstance(data, str) and datacontenttype is not None and not is_json(datacontenttype):
        return data.encode(), datacontenttype
    if isinstance(data, str) and datacontenttype is None:
        return data.encode(), TEXT
    try:
        return _json_encoder.encode(data), datacontenttype or JSON
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise BadEvent(
            f"data of type {type(data).__name__} cannot be encoded as JSON ({problem}); send bytes, text, or what JSON can hold"
        ) from problem


def decode_data(body: bytes | memoryview, datacontenttype: str) -> Any:
    """What `encode_data` was given. A body that is not what its content type says is handed out as bytes, not as an error."""
    return data_decoder(datacontenttype)(body)


@lru_cache(maxsize=256)
def data_decoder(datacontenttype: str) -> Callable[[bytes | memoryview], Any]:
    """What makes data of a body with this content type: found once for all events that have it."""
    if is_json(datacontenttype):
        return _from_json
    if datacontenttype.startswith("text/"):
        return _from_text
    return bytes


def _from_json(body: bytes | memoryview) -> Any:
    if not len(body):
        return None
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return bytes(body)


def _from_text(body: bytes | memoryview) -> str | bytes:
    try:
        return str(body, "utf-8")
    except UnicodeDecodeError:
        return bytes(body)


def is_json(datacontenttype: str) -> bool:
    media = datacontenttype.partition(";")[0].strip().lower()
    return media == JSON or media.endswith("+json")


def check_properties(properties: Mapping[str, Any]) -> dict[str, PropertyValue]:
    """The properties as a plain dict, or a refusal naming the one that cannot travel."""
    for name, value in properties.items():
        if not isinstance(name, str) or not _PROPERTY_NAME.match(name):
            raise BadEvent(
                f"property name {name!r} is not an identifier; use letters, digits, _ and $, not starting with a digit",
                property=str(name),
            )
        if not isinstance(value, _PROPERTY_TYPES):
            raise BadEvent(
                f"property {name!r} has type {type(value).__name__}; a property is a bool, int, float, str or None: "
                "put anything larger into the data",
                property=name,
            )
        if type(value) is int and not _INT64_MIN <= value <= _INT64_MAX:
            raise BadEvent(f"property {name!r} = {value} does not fit 64 bits; send it as text or in the data", property=name)
    return dict(properties)


def _to_microseconds(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise BadEvent(f"time {moment.isoformat()} has no time zone; use datetime.now(timezone.utc)", time=moment.isoformat())
    try:
        return round(moment.astimezone(UTC).timestamp() * 1_000_000)
    except OverflowError as problem:
        raise BadEvent(f"time {moment.isoformat()} is not in the years 1 to 9999 in UTC; give one that is") from problem


def from_microseconds(time_us: int) -> datetime:
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).replace(microsecond=time_us % 1_000_000)


def to_head_and_body(event: Event, now_us: int | None = None) -> tuple[Head, bytes]:
    """What travels. `now_us` is when it was recognised, unless the event says so itself."""
    if not 0 <= event.priority <= PRIORITY_MAX:
        raise BadEvent(f"priority {event.priority} is outside 0..{PRIORITY_MAX}", priority=event.priority)
    if event.ttl_ms is not None and event.ttl_ms <= 0:
        raise BadEvent(f"time to live {event.ttl_ms} ms is not positive; leave it out for an event that does not expire")
    if event.delay_ms < 0:
        raise BadEvent(f"delay {event.delay_ms} ms is negative")
    if not event.type:
        raise BadEvent("type is empty; CloudEvents requires one, such as 'order.placed'")
    if event.id == "" or event.source == "":
        raise BadEvent("id and source must not be empty; leave them out to have them filled in")
    now = now_us if now_us is not None else _time.time_ns() // 1000
    body, datacontenttype = encode_data(event.data, event.datacontenttype)
    head = Head(
        type=event.type,
        time_us=now if event.time is None else _to_microseconds(event.time),
        id=event.id,
        source=event.source,
        subject=event.subject,
        datacontenttype=datacontenttype,
        dataschema=event.dataschema,
        properties=check_properties(event.properties) if event.properties else None,
        group=event.group,
        correlation_id=event.correlation_id,
        reply_to=event.reply_to,
        expires_at_ms=now // 1000 + event.ttl_ms if event.ttl_ms is not None else 0,
    )
    return head, body
