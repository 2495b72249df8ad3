"""A subscription: a topic's memory of one recipient. It is a queue that the topic fills.

    durable       stays until it is unsubscribed, with or without a recipient; several receivers share its events
    non-durable   belongs to a session and goes with it

What waits in a subscription that ends is not dead: its recipient said that it wants no more.
"""

from __future__ import annotations

from typing import Any

from holdfast.destination.bodies import Bodies
from holdfast.destination.command import Settings
from holdfast.destination.effect import BacklogKey
from holdfast.destination.queue import Queue


class Subscription(Queue):
    kind = "subscription"

    def __init__(self, topic: str, name: str, settings: Settings, bodies: Bodies, owner: str = "") -> None:
        """`owner` is the session a non-durable subscription belongs to; "" for a durable one."""
        super().__init__(name, settings, bodies)
        self.topic = topic
        self.owner = owner

    @property
    def key(self) -> BacklogKey:
        return (self.topic, self.name)

    @property
    def title(self) -> str:
        return f"subscription '{self.name}' of topic '{self.topic}'"

    @property
    def is_durable(self) -> bool:
        return not self.owner

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "waiting": self.backlog.waiting,
            "receivers": len(self.receivers),
            "is_durable": self.is_durable,
        }
