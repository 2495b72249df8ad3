"""The bus: how the shells of a system talk to each other beside the channel, at most once.

Everything that must not be lost goes through the channel. Messages of the bus (deliveries, answers, credit, who is there) are
asked for or made again after a takeover: losing one costs time, never an event.

    client manager ──▶ message_manager.NAME     to the owner of destinations
    message manager ─▶ client_manager.NAME      deliveries, answers, the end of receivers
    message manager ─▶ client_managers          which destinations are full: to all of them
    node ────────────▶ nodes                    heartbeats: to all nodes
    node ────────────▶ node.NAME                calls of one node to another

In one process these are words within it. In a cluster they are subjects of NATS (`bus.nats`), and between a client manager and a
primary there is a link: a listener hears `LinkMade` before anything else of its peer, and must then say again what matters.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

log = logging.getLogger("holdfast.bus")

# At most so many messages are handed over before everyone else has a turn of the loop.
MESSAGES_A_TURN = 128

OnMessage = Callable[[Any], None]

# The subjects that all client managers, and all nodes, hear.
CLIENT_MANAGERS = "client_managers"
NODES = "nodes"


def message_manager_subject(name: str) -> str:
    """The subject that the message manager of this name hears."""
    return f"message_manager.{name}"


def client_manager_subject(start: str) -> str:
    """The subject that the client manager of this start hears."""
    return f"client_manager.{start}"


def node_subject(name: str) -> str:
    """The subject that one node hears, by its name or by its start."""
    return f"node.{name}"


class Bus(Protocol):
    @property
    def is_quiet(self) -> bool:
        """Everything that was published here has been heard, as far as is known."""

    def publish(self, subject: str, message: Any) -> None:
        """Hand a message to all listeners of the subject, if there are any, after the caller is done."""

    def hand_over(self, subject: str, message: Any) -> None:
        """Publish; a listener in this process gets the message before this returns, unless published ones still wait.

        The caller must be done with its own state: the listener may do anything but publish to it at once in turn.
        """

    def listen(self, subject: str, on_message: OnMessage) -> Callable[[], None]:
        """Call `on_message` with every message on a subject, in order, until the returned function is called."""


class InProcessBus:
    """The bus within one process: messages are handed over as they are, in order, at the next turn of the loop.

    It never hands over from within `publish`, so that no shell is entered again while it is at work. `hand_over` is for callers
    that are prepared for that, and never overtakes published messages. All messages of one turn of the loop cost one wake-up.
    """

    def __init__(self) -> None:
        self._listeners: dict[str, list[OnMessage]] = {}
        self._waiting: deque[tuple[str, Any]] = deque()
        self._is_handing_over = False
        self._loop = asyncio.get_running_loop()

    @property
    def is_quiet(self) -> bool:
        return not self._waiting and not self._is_handing_over

    def publish(self, subject: str, message: Any) -> None:
        if self.is_quiet:
            self._loop.call_soon(self._hand_over)
        self._waiting.append((subject, message))

    def hand_over(self, subject: str, message: Any) -> None:
        if self.is_quiet:
            self._tell(subject, message)
        else:
            self.publish(subject, message)

    def listen(self, subject: str, on_message: OnMessage) -> Callable[[], None]:
        self._listeners.setdefault(subject, []).append(on_message)

        def stop() -> None:
            listeners = self._listeners.get(subject, [])
            if on_message in listeners:
                listeners.remove(on_message)

        return stop

    def _hand_over(self) -> None:
        # Only messages that wait now, and not too many: the rest, and new ones of the listeners, have a turn of their own, so
        # that sockets are served in between.
        self._is_handing_over = True
        for _ in range(min(len(self._waiting), MESSAGES_A_TURN)):
            self._tell(*self._waiting.popleft())
        self._is_handing_over = False
        if self._waiting:
            self._loop.call_soon(self._hand_over)

    def _tell(self, subject: str, message: Any) -> None:
        for on_message in tuple(self._listeners.get(subject, ())):
            try:
                on_message(message)
            except Exception as problem:  # a fault of one listener must not cost another its messages
                log.error("a listener on %s failed at a %s: %r", subject, type(message).__name__, problem)
                log.debug("a listener on %s failed", subject, exc_info=problem)
