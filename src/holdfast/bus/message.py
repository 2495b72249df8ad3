"""The messages of the bus, between client managers and message managers. Each docstring begins with the sender."""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.errors import HoldfastError
from holdfast.event.extent import EVERYTHING, Bounds
from holdfast.event.position import Ranges

Buffer = bytes | memoryview
BacklogKey = tuple[str, str]


class Holding(NamedTuple):
    """Client manager: this receiver is about to attach (again) through me, and still holds these positions.

    `ahead` are the positions that its program has not got yet, in order; None where the client does not say. `keeps`: it may
    hold positions although it attaches for the first time, and nothing that it was handed counts as delivered when it is gone.
    """

    client_manager: str
    session: str
    receiver: int
    held: Ranges
    ahead: list[tuple[int, int]] | None = None
    keeps: bool = False


class NoLongerHeld(NamedTuple):
    """Message manager: these positions that the receiver said it holds are finished or with others. The answer follows."""

    session: str
    receiver: int
    lost: Ranges


class NotAttached(NamedTuple):
    """Client manager: this receiver was about to attach, and was refused."""

    session: str
    receiver: int


class CreditGranted(NamedTuple):
    session: str
    receiver: int
    events: int
    bytes: int
    handed: int = 0  # as in HandedOn
    withdrawn: int = 0  # so many events fewer


class HandedOn(NamedTuple):
    """Client manager: this receiver has handed its deliveries up to this position to its program."""

    session: str
    receiver: int
    handed: int  # the position that was handed on last


class LinkDown(NamedTuple):
    """Client manager: the link of the session is lost; deliver nothing more to it until its receivers attach again."""

    session: str
    client_manager: str = ""  # the start of its process: the session may have moved to another since


class SessionGone(NamedTuple):
    """Client manager: the session did not come back within its grace; give it up."""

    session: str
    client_manager: str = ""  # as of LinkDown


class LinkCongested(NamedTuple):
    """Client manager: the link of the session is congested, or is so no more; deliver nothing while it is."""

    session: str
    is_congested: bool


class WatermarksAsked(NamedTuple):
    """Client manager: I am new; how full are the destinations with a high water?"""

    client_manager: str


class AdministrationAsked(NamedTuple):
    """Client manager: an event is about to be sent to `_ADMIN`."""


class Watermark(NamedTuple):
    """Message manager, to all client managers: how full a destination with a high water is, when that changes."""

    destination: str
    has_high_water: bool
    is_blocked: bool = False
    is_refusing: bool = False  # far past the high water: nothing more may be accepted
    reason: str = ""
    manager: str = ""
    epoch: int = 0
    version: int = 0  # which change of this primary it is


class WatermarksTold(NamedTuple):
    """Message manager: the answer to WatermarksAsked. All destinations with a high water, as of a change."""

    manager: str
    epoch: int
    version: int
    levels: list[Watermark]


class TransactionsInDoubt(NamedTuple):
    """Message manager, to all client managers: these transactions over several message managers are in doubt here, and have been
    for a while; end them. For each, its participants, and the session and assembly at each of them."""

    manager: str
    transactions: list[tuple[list[str], list[tuple[str, str]]]]


class Question(NamedTuple):
    """Client manager: a question about the applied state, such as the list of destinations."""

    client_manager: str
    token: int
    action: str
    arguments: Any  # those of the action, as `node.administration.arguments` declares them
    durable: int = 0  # the newest entry that the asker knows to be durable: it is applied before the answer


class Reply(NamedTuple):
    """Message manager: the answer to a command (when it is applied) or to a question."""

    token: int
    value: Any
    error: HoldfastError | None


class DeliveredSlice(NamedTuple):
    """The fields of `Slice` of the wire, in its order, with the bytes in place of their length."""

    first: int
    events: int
    deliveries: int
    is_adjoining: bool
    batch: Buffer
    destination: str = ""  # where it was sent, when that is not where the receiver is attached
    deaths: tuple[Any, ...] = ()  # in the dead queue: why these events are there, as it travels
    accepted_us: int = 0  # microseconds since 1970; 0: not known
    is_returned: bool = False


class BrowseAsked(NamedTuple):
    """Client manager: which events wait in a backlog from a cursor on? A Reply answers, with a BrowsedPage as its value."""

    client_manager: str
    token: int
    destination: str
    subscription: str
    cursor: int
    events_max: int
    selector: str
    end: int = 0  # a place; 0: as far as there is
    bytes_max: int = 0  # of a page of whole batches, for reading by place; 0: a page of a browser
    within: Bounds = EVERYTHING
    durable: int = 0  # as of a Question


class BrowsedPage(NamedTuple):
    slices: list[DeliveredSlice]
    cursor: int
    is_end: bool


class Delivered(NamedTuple):
    """Message manager: hand these slices to the receiver."""

    session: str
    receiver: int
    slices: list[DeliveredSlice]
    is_careful: bool = False  # the next comes when the program asks for it


class ReceiverGone(NamedTuple):
    """Message manager: the receiver is detached; nothing more will come to it."""

    session: str
    receiver: int
    code: str
    sentence: str


# --- between processes -----------------------------------------------------------------------------------------------


class LinkMade(NamedTuple):
    """The bus: a link with this peer begins. Nothing of a former one comes any more, and what was said on it may be lost.

    A client manager reports what its receivers hold, and asks again what was not answered."""

    peer: str  # its subject
    epoch: int


class LinkEnded(NamedTuple):
    """The bus: there is no link with this peer now. What is published to it is lost."""

    peer: str
    why: str


class PeerCongested(NamedTuple):
    """The bus: this peer does not take what is published to it, or does so again. Deliver nothing to it while it does not."""

    peer: str
    is_congested: bool


class NewerEpoch(NamedTuple):
    """The bus: a client manager knows of a primary of this epoch, which is newer than that of this one."""

    epoch: int


class CopyState(NamedTuple):
    """The state of a copy of a message manager: of its primary, or of a backup."""

    manager: str
    epoch: int
    is_primary: bool
    applied: int
    durable: int
    bytes: int = 0  # that the channel uses
    flow_version: int = 0  # changes of the fullness of destinations that this primary has told
    stages: int = 0
    staged_parts: int = 0
    staged_bytes: int = 0
    temporary_waiting: dict[str, int] = {}  # noqa: RUF012 - events that wait in temporary destinations, while space is short
    destinations: int = 0  # changes of its destinations so far, counted by this primary
    resigns_to: str = ""  # of a primary that resigns: the start of the node that is to claim
    is_log_read: bool = False  # `_LOG` has a subscription there


class Heartbeat(NamedTuple):
    """Node, to all nodes, every 100 ms: I am there."""

    node: str
    start: str  # another one each time it starts
    client_manager: str  # the subject of its client manager; "" where it has none
    copies: list[CopyState]
    configuration: bytes = b""  # the digest of the essential configuration
    is_drained: bool = False  # it takes no clients, and is nobody's successor
    links: int = 0  # of clients with its client manager
    settings_version: int = 0  # of the cluster's settings that are in force at this node
    users_version: int = 0


class ViewAsked(NamedTuple):
    """Client manager of another process: a question of its view. A ViewAnswered answers when the state is known."""

    client_manager: str
    token: int
    question: str
    arguments: list[Any]
    durable: int = 0  # as of a Question


class ViewAnswered(NamedTuple):
    """Message manager: the answer to a ViewAsked."""

    manager: str
    token: int
    value: Any
    error: HoldfastError | None


class ApplyNowAsked(NamedTuple):
    """Client manager of another process: somebody waits for what is applied next."""


class NodeAsked(NamedTuple):
    """Node: a call of another node, which it answers with NodeAnswered. It is repeated until then, under the same token."""

    asker: str  # the subject on which the answer is heard
    token: int
    action: str
    arguments: dict[str, Any]


class NodeAnswered(NamedTuple):
    """Node: the answer to a NodeAsked."""

    node: str
    token: int
    value: Any
    error: HoldfastError | None
