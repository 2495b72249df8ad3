"""Slices as a server hands them out, made here, and the same events as rows, made the slow and certain way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from holdfast.event.batch import Batch, encode
from holdfast.event.event import Event, Head, PropertyValue, decode_head, encode_head, from_microseconds, to_head_and_body
from holdfast.event.identifier import to_text


class MadeSlice(NamedTuple):
    first: int
    events: int
    destination: str
    accepted_us: int
    batch: Batch


def slice_of(
    heads: Sequence[Head],
    bodies: Sequence[bytes],
    *,
    first: int = 65_536,
    first_id: int = 1 << 100,
    destination: str = "orders",
    accepted_us: int = 0,
    source: str = "/test",
    priority: int = 4,
) -> MadeSlice:
    data = encode([encode_head(head) for head in heads], bodies, source=source, first_id=first_id, priority=priority)
    return MadeSlice(first, len(heads), destination, accepted_us, Batch(data))


def slice_of_events(events: Sequence[Event], **others: Any) -> MadeSlice:
    made = [to_head_and_body(event) for event in events]
    return slice_of([head for head, _ in made], [body for _, body in made], **others)


def plain_slice(count: int, entry: int = 1, size: int = 256) -> MadeSlice:
    """Events that have nothing but data and a time, as most producers send them."""
    heads = [Head(time_us=1_700_000_000_000_000 + 1000 * entry + index) for index in range(count)]
    bodies = [index.to_bytes(4, "big") * (size // 4) for index in range(count)]
    return slice_of(heads, bodies, first=entry << 16, first_id=(1 << 120) + 1000 * entry, accepted_us=1_700_000_000_500_000)


def rows_of(slices: Iterable[MadeSlice]) -> list[dict[str, Any]]:
    """Every event as a row, one by one, with its data as bytes."""
    return [_row(each, index) for each in slices for index in range(each.batch.count)]


def _row(each: MadeSlice, index: int) -> dict[str, Any]:
    batch = each.batch
    head = decode_head(batch.head(index))
    return {
        "destination": each.destination,
        "position": each.first + index,
        "accepted_at": _moment(each.accepted_us),
        "id": head.id or to_text(batch.first_id + index),
        "source": head.source or batch.source,
        "type": head.type,
        "time": from_microseconds(head.time_us),
        "subject": head.subject,
        "datacontenttype": head.datacontenttype,
        "dataschema": head.dataschema,
        "event_group": head.group,
        "correlation_id": head.correlation_id,
        "reply_to": head.reply_to,
        "priority": batch.priority,
        "expires_at": _moment(head.expires_at_ms * 1000),
        "size": len(batch.body(index)) if head.large is None else head.large.size,
        "properties": [(name, _text(value)) for name, value in (head.properties or {}).items()],
        "data": bytes(batch.body(index)) if head.large is None else None,
    }


def _moment(moment_us: int) -> datetime | None:
    return from_microseconds(moment_us) if moment_us else None


def _text(value: PropertyValue) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
