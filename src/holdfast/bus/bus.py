"""The bus: how the shells of a system talk to each other beside the channel, at most once.

What must not be lost goes through the channel. What goes over the bus (deliveries, answers, credit, who is there) is either
asked for again or made again after a takeover: losing it costs time, never an event.

    client manager ──▶ message_manager.NAME     what is said to the owner of destinations
    message manager ─▶ client_manager.NAME      deliveries, answers, what became of receivers
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Heard = Callable[[Any], None]


class Bus(Protocol):
    def publish(self, subject: str, message: Any) -> None:
        """Hand a message to everyone who listens to the subject, after the caller is done; to nobody if nobody does."""

    def listen(self, subject: str, heard: Heard) -> Callable[[], None]:
        """Hear what is published on a subject, in order, until the returned function is called."""
