"""A piece: events of one upstream batch on their way into one local destination, and what rules change in them.

A batch passes as it is, with one hop more and its origin in its head. It is opened only where a rule of the route looks inside,
or where a request waits for its reply at a temporary address: heads that have one show it without being read.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.client.sending.outgoing import too_large
from holdfast.event.batch import Batch, count_of, encode
from holdfast.event.event import NOT_READABLE, Head, decode_heads, encode_head
from holdfast.event.hops import with_hops
from holdfast.event.identifier import to_text
from holdfast.relay.definition import RelayDefinition, Route
from holdfast.relay.machines import reply_map

if TYPE_CHECKING:
    from holdfast.client.sending.outgoing import EventFields
    from holdfast.client.transaction import Transaction


# A command takes 1 MiB and a little: the rest is for names.
BATCH_BYTES_MAX = 1 << 20


class Changes(NamedTuple):
    """What a route changes in events."""

    add: dict[str, Any]
    priority: int | None
    ttl_ms: int | None
    upstream: str
    replies: str

    @classmethod
    def of(cls, route: Route, definition: RelayDefinition) -> Changes:
        return cls(route.add, route.priority, route.ttl_ms, route.upstream, definition.replies)

    def head(self, head: Head, event_id: str, now_ms: int) -> Head:
        """A head as it passes."""
        made = reply_map.mapped(head, event_id, self.upstream, self.replies)
        if self.add:
            made = msgspec.structs.replace(made, properties={**(made.properties or {}), **self.add})
        return msgspec.structs.replace(made, expires_at_ms=now_ms + self.ttl_ms) if self.ttl_ms is not None else made


class Piece:
    """Events with upstream positions in a row. `send` puts them into a transaction."""

    def __init__(self, target: str, first: int, last: int, data: bytes | memoryview, large: Any = None) -> None:
        self.target = target
        self.first, self.last = first, last
        self.data = data
        self._large = large  # a large event, and the fields that it is sent with

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def is_large(self) -> bool:
        return self._large is not None

    async def send(self, transaction: Transaction, kind: str) -> None:
        destination = transaction.topic(self.target) if kind == "topic" else transaction.queue(self.target)
        if self._large is None:
            await destination.send_batch(self.data)
            return
        event, fields, hops, origin = self._large
        async with event.open_stream() as stream:
            await destination.send_stream(stream, hops=hops, origin=origin, **fields)


def pieces_of(batch: Any, first: int, last: int, target: str, changes: Changes, origin: int) -> list[Piece]:
    """The events `first` to `last` of a batch as pieces; `origin` where they begin, if they have passed no relay before."""
    if batch.is_large:
        event = batch.events[0]
        large = (event, _large_fields(event, changes), batch.hops + 1, batch.origin or origin)
        return [Piece(target, first, last, b"", large)]
    data = batch.passed_on(origin=origin)
    if (first, last) != (batch.first, batch.last):
        data = Batch(data).slice(first - batch.first, last - first + 1)
    return _split(data, first, target, changes)


def _split(data: bytes | memoryview, first: int, target: str, changes: Changes) -> list[Piece]:
    """A batch with the changes of the route, in halves where it has become too large. TooLarge for one event that has."""
    made, count = _changed(data, changes), count_of(data)
    if len(made) <= BATCH_BYTES_MAX:
        return [Piece(target, first, first + count - 1, made)]
    if count == 1:
        raise too_large(len(made))
    half = count // 2
    left, right = (Batch(data).slice(begin, events) for begin, events in ((0, half), (half, count - half)))
    return [*_split(left, first, target, changes), *_split(right, first + half, target, changes)]


def _changed(data: bytes | memoryview, changes: Changes) -> bytes | memoryview:
    """A batch with the changes of the route; the same one where it has none."""
    batch = Batch(data)
    is_asked = bytes(batch.heads).find(reply_map.SIGN) >= 0
    if not (changes.add or changes.ttl_ms is not None or changes.priority is not None or is_asked):
        return data
    try:
        heads = decode_heads(batch.heads, batch.count)
    except NOT_READABLE:
        return data  # a broken head passes as it is, and is told to be broken where it is read
    now_ms = time.time_ns() // 1_000_000
    made = [changes.head(head, head.id or to_text(batch.first_id + index), now_ms) for index, head in enumerate(heads)]
    expiries = [head.expires_at_ms for head in made if head.expires_at_ms]
    encoded = encode(
        [encode_head(head) for head in made],
        [bytes(batch.body(index)) for index in range(batch.count)],
        source=batch.source,
        first_id=batch.first_id,
        priority=batch.priority if changes.priority is None else changes.priority,
        not_before_ms=batch.not_before_ms,
        earliest_expiry_ms=min(expiries, default=0),
        latest_expiry_ms=max(expiries, default=0),
        has_groups=batch.has_groups,
    )
    return with_hops(encoded, batch.hops, batch.origin)


def _large_fields(event: Any, changes: Changes) -> EventFields:
    """The fields of a large event, as they pass: it keeps its id, source and time."""
    now_ms = time.time_ns() // 1_000_000
    head = changes.head(event.head, event.id, now_ms)
    fields: EventFields = {
        "type": head.type, "source": event.source, "id": event.id, "time": event.time, "subject": head.subject,
        "datacontenttype": head.datacontenttype, "dataschema": head.dataschema, "properties": head.properties,
        "priority": event.priority if changes.priority is None else changes.priority, "group": head.group,
        "correlation_id": head.correlation_id, "reply_to": head.reply_to,
    }  # fmt: skip
    if head.expires_at_ms:
        fields["ttl_ms"] = max(1, head.expires_at_ms - now_ms)
    return fields
