"""What is said over the bus between client managers and message managers."""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.errors import HoldfastError
from holdfast.event.bounds import EVERYTHING, Bounds
from holdfast.event.position import Ranges

Buffer = bytes | memoryview
BacklogKey = tuple[str, str]


class Holding(NamedTuple):
    """Client manager: this receiver is about to attach (again), is reached through me, and still holds these positions."""

    client_manager: str
    session: str
    receiver: int
    held: Ranges


class NotAttached(NamedTuple):
    """Client manager: this receiver was about to attach, and was refused."""

    session: str
    receiver: int


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


class LinkCongested(NamedTuple):
    """Client manager: the session's link takes no more for the moment; hand nothing out to it until it says that it does."""

    session: str
    is_congested: bool


class WatermarksAsked(NamedTuple):
    """Client manager: I am new; how full are the destinations that have a high water?"""

    client_manager: str


class AdministrationAsked(NamedTuple):
    """Client manager: something is about to be sent to `_ADMIN`."""


class Watermark(NamedTuple):
    """Message manager, to all client managers: how full a destination is that has a high water, when that changes."""

    destination: str
    has_high_water: bool
    is_blocked: bool = False
    is_refusing: bool = False  # far past the high water: nothing more may be accepted
    reason: str = ""


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
    """The fields of the wire's `Slice`, in its order, with the bytes in place of their length."""

    first: int
    events: int
    deliveries: int
    is_adjoining: bool
    batch: Buffer
    destination: str = ""  # where it was sent, when that is not where the receiver is attached
    deaths: tuple[Any, ...] = ()  # of the dead queue: why all of these are there, as it travels
    accepted_us: int = 0  # microseconds since 1970; 0: not known


class BrowseAsked(NamedTuple):
    """Client manager: what waits in a backlog, from a cursor on; answered with a Reply whose value is a BrowsedPage."""

    client_manager: str
    token: int
    destination: str
    subscription: str
    cursor: int
    events_max: int
    selector: str
    end: int = 0  # a place; 0: as far as there is
    bytes_max: int = 0  # of a page of whole batches, for who reads by place; 0: of a browser's
    within: Bounds = EVERYTHING


class BrowsedPage(NamedTuple):
    slices: list[DeliveredSlice]
    cursor: int
    is_end: bool


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
