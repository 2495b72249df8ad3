"""A received event as rules see it."""

from __future__ import annotations

from typing import Any

from holdfast.actions.machines.seen import Seen
from holdfast.client.receiving.received_event import Received
from holdfast.errors import TooLarge
from holdfast.event.event import encode_head, from_microseconds
from holdfast.event.pattern import Pattern
from holdfast.event.selector.selector import View, parse_optional


def seen_of(event: Received) -> Seen:
    head = event.head
    return Seen(
        at_us=accepted_us(event),
        position=event.position,
        id=event.id,
        source=event.source,
        type=head.type,
        subject=head.subject,
        time=from_microseconds(head.time_us).isoformat(),
        destination=event.destination,
        priority=event.priority,
        group=head.group,
        correlation_id=head.correlation_id,
        properties=head.properties or {},
        data=_data(event),
    )


def accepted_us(event: Received) -> int:
    """When the server accepted it; when it was sent, if an older server did not record that."""
    return event.slice.accepted_us or event.head.time_us


def _data(event: Received) -> Any:
    """The data; None of an event that is too large to be looked into."""
    try:
        data = event.data
    except TooLarge:
        return None
    return data if not isinstance(data, bytes) else None


class Matcher:
    """Which events a rule means, judged here: for events of a source that the rule is leaving, and for dry runs."""

    def __init__(self, topics: tuple[str, ...], queue: str, selector: str) -> None:
        self._patterns = [Pattern.glob(topic) for topic in topics]
        self._queue = queue
        self._selector = parse_optional(selector)

    def is_of_destination(self, destination: str) -> bool:
        return destination == self._queue or any(pattern.matches(destination) for pattern in self._patterns)

    def is_selected(self, head: bytes, source: str, priority: int) -> bool:
        return self._selector is None or self._selector.matches(View(head, source, 0, priority))

    def matches(self, event: Received) -> bool:
        if not self.is_of_destination(event.destination):
            return False
        return self.is_selected(encode_head(event.head), event.source, event.priority)
