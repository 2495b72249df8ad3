"""What is said over the bus between client managers and message managers."""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.errors import HoldfastError
from holdfast.event.position import Ranges

Buffer = bytes | memoryview
BacklogKey = tuple[str, str]


class Holding(NamedTuple):
    """Client manager: this receiver is about to attach (again), is reached through me, and still holds these positions."""

    client_manager: str
    session: str
    receiver: int
    held: Ranges


class CreditGranted(NamedTuple):
    session: str
    receiver: int
    events: int
    bytes: int


class LinkDown(NamedTuple):
    """Client manager: the session's link is lost; deliver nothing more to it until its receivers attach again."""

    session: str


class SessionGone(NamedTuple):
    """Client manager: the session did not come back within its grace; give up on it."""

    session: str


class Question(NamedTuple):
    """Client manager: something about the state as applied, such as the list of destinations."""

    client_manager: str
    token: int
    action: str
    arguments: dict[str, Any]


class Reply(NamedTuple):
    """Message manager: the answer to a command (when it is applied) or to a question."""

    token: int
    value: Any
    error: HoldfastError | None


class DeliveredSlice(NamedTuple):
    first: int
    events: int
    deliveries: int
    is_adjoining: bool
    batch: Buffer


class Delivered(NamedTuple):
    """Message manager: hand these to the receiver."""

    session: str
    receiver: int
    slices: list[DeliveredSlice]


class ReceiverGone(NamedTuple):
    """Message manager: the receiver is detached; nothing more will come to it."""

    session: str
    receiver: int
    code: str
    sentence: str
