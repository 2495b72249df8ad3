"""An event: when it was recognised, who recognised it, its nature, its details.

The attributes are those of CloudEvents 1.0 (`id source type time subject datacontenttype dataschema data`), and those that a
messaging system needs: `properties` for selectors, `priority`, `ttl_ms`, `group`, `correlation_id`, `reply_to`.

    Event     made and sent by a program
    Head      its attributes as they travel: small, decoded only when they are asked for
    body      its data as bytes; opaque to everything between producer and recipient

Head and body are kept apart: selectors and groups read heads only, and nothing else reads either.
"""

from __future__ import annotations

import re
import time as _time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import isfinite
from typing import Annotated, Any

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
# Characters of a value in `repr(event)`.
_SHOWN_MAX = 80
# Made once: building a union at every call costs more than the check.
_BYTES = (bytes, bytearray, memoryview)
_SCALARS, _TEXT = frozenset((bool, int, float, str, type(None))), frozenset((str,))
# How deep data is looked through quickly.
_QUICK_DEPTH = 16
_PROPERTY_TYPES = (bool, int, float, str, type(None))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


class LargeBody(msgspec.Struct, array_like=True, frozen=True):
    """The size and digest of a body that is kept in fragments, all `fragment_bytes` long but the last."""

    size: Annotated[int, msgspec.Meta(ge=0)]  # in bytes
    fragment_bytes: Annotated[int, msgspec.Meta(ge=1)]
    digest: bytes  # SHA-256


class Head(msgspec.Struct, gc=False, omit_defaults=True, kw_only=True):
    """The head of an event: everything but its body. One-letter names on the wire: heads are most of a small event."""

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


# The errors of decoding bytes that are no head, or no message: damaged, or made by a broken producer.
NOT_READABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# The type of an event whose head cannot be read, but that must be shown; its data is bytes.
UNREADABLE_TYPE = "holdfast.unreadable"
_head_encoder = msgspec.msgpack.Encoder()
_head_decoder = msgspec.msgpack.Decoder(Head)
_heads_decoder = msgspec.msgpack.Decoder(list[Head])
_to_json = msgspec.json.Encoder().encode
_pack_into = _head_encoder.encode_into
_ARRAY_OF = b"\xdd"  # MessagePack: an array with a length of four bytes
encode_head = _head_encoder.encode
decode_head = _head_decoder.decode


def unreadable_head() -> Head:
    """A head in place of one that cannot be read."""
    return Head(type=UNREADABLE_TYPE, datacontenttype=BINARY)


def decode_heads(heads: bytes | memoryview, count: int) -> list[Head]:
    """Decode so many heads, one behind the other, at once; an error of NOT_READABLE if one of them is no head."""
    return _heads_decoder.decode(b"".join((_ARRAY_OF, count.to_bytes(4, "big"), heads)))


class Event(msgspec.Struct, kw_only=True, eq=True):
    """An event as a program sends it. Everything but `data` may be left out; the client fills in `id`, `source` and `time`."""

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

    def __repr__(self) -> str:
        """The fields that were given, each shortened: events are printed while somebody looks for something else."""
        fields = zip(self.__struct_fields__, self.__struct_defaults__, strict=True)
        given = [(name, getattr(self, name)) for name, usual in fields if getattr(self, name) is not usual]
        return f"Event({', '.join(f'{name}={_shown(value)}' for name, value in given)})"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"


def encode_data(data: Any, datacontenttype: str | None) -> tuple[bytes, str]:
    """The body of an event and its content type: bytes as they are, text as UTF-8, anything else as JSON."""
    if type(data) is not dict:  # as most are
        if data is None:
            return b"", datacontenttype or JSON
        if isinstance(data, _BYTES):
            return bytes(data), datacontenttype or BINARY
        if isinstance(data, str) and (datacontenttype is None or not is_json(datacontenttype)):
            return data.encode(), datacontenttype or TEXT
    try:
        return encode_json(data, bytearray()), datacontenttype or JSON
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise BadEvent(
            f"data of type {type(data).__name__} cannot be encoded as JSON ({problem}); send bytes, text, or what JSON can hold"
        ) from problem


def encode_json(data: Any, packed: bytearray) -> bytes:
    """The data as JSON. BadEvent for a part that JSON would change: NaN and infinity to null, bytes to text. Other errors, as
    msgspec has them, for data that JSON cannot hold.

    Such parts are found from the same data in MessagePack, which keeps them apart: that costs less than looking at each part.
    One of five bytes tells that there may be one, and only then is looked closer. `packed` is overwritten: room for it, which
    one thread uses again and again.
    """
    body = _to_json(data)
    try:
        _pack_into(data, packed)
    except (TypeError, ValueError, OverflowError):  # such as an int of more than 64 bits
        check_parts(data)
        return body
    # Bytes of any length begin with one of the first three, and NaN and infinity have one of the others; so may other data.
    has_bytes = (0xC4 in packed or 0xC5 in packed or 0xC6 in packed) and not _is_plain(data)
    if has_bytes or ((0x7F in packed or 0xFF in packed) and body.find(b"null") >= 0):
        check_parts(data)
    return body


def _is_plain(data: Any, depth: int = 0) -> bool:
    """Whether data has only dicts with text keys, lists, texts and numbers. Large numbers, and letters of some languages, look
    like bytes in MessagePack; this is quicker than `check_parts`, and goes less deep."""
    if type(data) is dict:
        if not _TEXT.issuperset(map(type, data)):
            return False
        data = data.values()
    elif type(data) is not list:
        return type(data) in _SCALARS
    if _SCALARS.issuperset(map(type, data)):
        return True
    return depth < _QUICK_DEPTH and all(type(each) in _SCALARS or _is_plain(each, depth + 1) for each in data)


def check_parts(data: Any, *, is_binary_text: bool = False) -> None:
    """BadEvent, with its path, for a part that would arrive as something else; `is_binary_text`: bytes may, as base64."""
    parts: list[tuple[str, Any]] = [("$", data)]
    while parts:
        path, value = parts.pop()
        if isinstance(value, float) and not isfinite(value):
            raise BadEvent(
                f"data has {value} at {path}, which JSON cannot hold: it would arrive as null; send None, a number or text there",
                path=path,
            )
        if isinstance(value, _BYTES) and not is_binary_text:
            raise BadEvent(
                f"data has {type(value).__name__} at {path}, which JSON cannot hold: it would arrive as base64 text; encode it "
                "yourself, or send bytes alone as the data",
                path=path,
            )
        if isinstance(value, Mapping) and not is_binary_text and (key := next(filter(_is_bytes, value), None)) is not None:
            raise BadEvent(
                f"data has the key {key!r:.40} at {path}, which JSON cannot hold: it would arrive as base64 text; use text",
                path=path,
            )
        parts.extend(reversed(_parts_of(path, value)))


def _is_bytes(value: Any) -> bool:
    return isinstance(value, _BYTES)


def _parts_of(path: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [(f"{path}.{key}" if str(key).isidentifier() else f"{path}[{key!r:.40}]", part) for key, part in value.items()]
    if isinstance(value, list | tuple | set | frozenset):
        return [(f"{path}[{index}]", part) for index, part in enumerate(value)]
    names = getattr(value, "__struct_fields__", None) or getattr(value, "__dataclass_fields__", None) or ()
    names = names or [each.name for each in getattr(value, "__attrs_attrs__", ())]
    return [(f"{path}.{name}", getattr(value, name)) for name in names if hasattr(value, name)]


def decode_data(body: bytes | memoryview, datacontenttype: str) -> Any:
    """The data that `encode_data` was given. A body that does not fit its content type is handed out as bytes, not refused."""
    return data_decoder(datacontenttype)(body)


@lru_cache(maxsize=256)
def data_decoder(datacontenttype: str) -> Callable[[bytes | memoryview], Any]:
    """The function that decodes a body of this content type: found once for all events that have it."""
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
    except NOT_READABLE:
        return bytes(body)


def _from_text(body: bytes | memoryview) -> str | bytes:
    try:
        return str(body, "utf-8")
    except UnicodeDecodeError:
        return bytes(body)


def is_json(datacontenttype: str) -> bool:
    media = datacontenttype.partition(";")[0].strip().lower()
    return media in (JSON, "text/json") or media.endswith("+json")


def is_property_name(name: str) -> bool:
    """Whether this is an identifier, with $ as a letter: in ASCII, or in any language that Unicode knows."""
    return bool(_PROPERTY_NAME.match(name)) or (not name.isascii() and name.replace("$", "_").isidentifier())


# The same few names come with every event; long ones are not kept.
_SHORT_NAME = 64
_is_short_name = lru_cache(maxsize=1024)(is_property_name)


def check_properties(properties: Mapping[str, Any]) -> dict[str, PropertyValue]:
    """The properties as a plain dict, or a refusal naming the one that cannot travel."""
    for name, value in properties.items():
        if not isinstance(name, str) or not (_is_short_name(name) if len(name) <= _SHORT_NAME else is_property_name(name)):
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
        if isinstance(value, float) and not isfinite(value):
            raise BadEvent(
                f"property {name!r} is {value}, which no selector compares and JSON cannot hold; leave it out, or send a number",
                property=name,
            )
        if type(value) is int and not _INT64_MIN <= value <= _INT64_MAX:
            raise BadEvent(f"property {name!r} = {value} does not fit 64 bits; send it as text or in the data", property=name)
    return dict(properties)


def to_microseconds(moment: datetime) -> int:
    """Microseconds since 1970. BadEvent for a moment without a time zone, or too far away."""
    if moment.tzinfo is None:
        raise BadEvent(f"time {moment.isoformat()} has no time zone; use datetime.now(timezone.utc)", time=moment.isoformat())
    try:
        return (moment.astimezone(UTC) - _EPOCH) // _MICROSECOND  # float seconds lose microseconds far from 1970
    except OverflowError as problem:
        raise BadEvent(f"time {moment.isoformat()} is not in the years 1 to 9999 in UTC; give one that is") from problem


def from_microseconds(time_us: int) -> datetime:
    """The moment; outside of the years 1 to 9999, the nearest moment in them."""
    try:
        return datetime.fromtimestamp(time_us // 1_000_000, UTC).replace(microsecond=time_us % 1_000_000)
    except (ValueError, OverflowError, OSError):
        return (datetime.max if time_us > 0 else datetime.min).replace(tzinfo=UTC)


def to_head_and_body(event: Event, now_us: int | None = None, server_ms: Callable[[], int] | None = None) -> tuple[Head, bytes]:
    """The head and body of an event. `now_us` is its time, unless it has one. Its time to live counts from `server_ms`, if
    given, or else from now."""
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
        time_us=now if event.time is None else to_microseconds(event.time),
        id=event.id,
        source=event.source,
        subject=event.subject,
        datacontenttype=datacontenttype,
        dataschema=event.dataschema,
        properties=check_properties(event.properties) if event.properties else None,
        group=event.group,
        correlation_id=event.correlation_id,
        reply_to=event.reply_to,
        expires_at_ms=(server_ms() if server_ms else now // 1000) + event.ttl_ms if event.ttl_ms is not None else 0,
    )
    return head, body
