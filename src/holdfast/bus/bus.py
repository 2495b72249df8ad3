"""The bus: how the shells of a system talk to each other beside the channel, at most once.

What must not be lost goes through the channel. What goes over the bus (deliveries, answers, credit, who is there) is either
asked for again or made again after a takeover: losing it costs time, never an event.

    client manager ──▶ message_manager.NAME     what is said to the owner of destinations
    message manager ─▶ client_manager.NAME      deliveries, answers, what became of receivers
    message manager ─▶ client_managers          which destinations are full: to all of them
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Heard = Callable[[Any], None]


class Bus(Protocol):
    @property
    def is_quiet(self) -> bool:
        """As far as can be known here: everything that was published has been heard."""

    def publish(self, subject: str, message: Any) -> None:
        """Hand a message to everyone who listens to the subject, after the caller is done; to nobody if nobody does."""

    def hand_over(self, subject: str, message: Any) -> None:
        """`publish`, and where the listener is in this process, before this returns, unless something published waits for it.

        For a caller that is done with its own state: the listener may do anything but publish to it at once in turn.
        """

    def listen(self, subject: str, heard: Heard) -> Callable[[], None]:
        """Hear what is published on a subject, in order, until the returned function is called."""
