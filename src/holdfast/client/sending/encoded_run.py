"""An encoded run: events of one priority and without a delay, encoded, that a batch builder takes together."""

from __future__ import annotations

from holdfast.client.sending.outgoing import Outgoing


class EncodedRun:
    __slots__ = ("bodies", "earliest_expiry_ms", "has_groups", "heads", "ids", "latest_expiry_ms", "priority", "size")

    delay_ms = not_before_ms = 0  # as an `Outgoing` has them

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.ids: dict[int, str] = {}  # of events that have their own, by their index
        self.earliest_expiry_ms = 0
        self.latest_expiry_ms = 0
        self.has_groups = False
        self.size = 0  # as a batch builder counts it; set by who adds events

    def add(self, event: Outgoing) -> None:
        """Add an event of this priority, without a delay."""
        if event.id is not None:
            self.ids[len(self.heads)] = event.id
        if event.expires_at_ms:
            self.earliest_expiry_ms = min(self.earliest_expiry_ms or event.expires_at_ms, event.expires_at_ms)
            self.latest_expiry_ms = max(self.latest_expiry_ms, event.expires_at_ms)
        self.has_groups |= event.has_group
        self.bodies.append(event.body)
        self.heads.append(event.head)
