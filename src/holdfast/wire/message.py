"""What a client and a client manager can say to each other: the heads of frames. Which of them when: `conversation`; as bytes:
`frame`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from holdfast.errors import HoldfastError, by_code
from holdfast.event.bounds import EVERYTHING, Bounds


class Message(msgspec.Struct, array_like=True, frozen=True):
    """The head of a frame. New fields go last, with a default."""

    KIND: ClassVar[int] = 0


class Hello(Message, frozen=True):
    KIND = 1
    magic: str
    versions: list[int]
    name: str = ""  # of the client program, for people
    user: str = ""
    password: str = ""
    client: str = ""  # made by the client once, the same on all its links: whose events "not my own" means

    def __repr__(self) -> str:
        """Without the password: what is shown may be logged."""
        shown = "***" if self.password else ""
        return f"Hello(versions={self.versions}, name={self.name!r}, user={self.user!r}, password={shown!r})"


class Welcome(Message, frozen=True):
    KIND = 2
    version: int
    node: str
    frame_bytes_max: int
    heartbeat_ms: int  # each side says something at least this often, and gives up after three times as long a silence
    window: int  # batches a producer may have sent and not receipted


class OpenSession(Message, frozen=True):
    """`resume` is the session's id when the link was lost; "" for a new one. One that is not
    `is_resumable` is given up at once when its link is lost."""

    KIND = 3
    token: int
    name: str = ""
    resume: str = ""
    is_resumable: bool = True


class SessionOpened(Message, frozen=True):
    KIND = 4
    token: int
    session: str  # the session's id
    first_id: bytes  # 16 bytes: the client counts its event ids up from here (32 bits of counter)
    is_resumed: bool


class CloseSession(Message, frozen=True):
    KIND = 5
    token: int


class OpenProducer(Message, frozen=True):
    """`producer` "" asks for a new one. Answered with {"producer": id, "last_sequence": n, "receipts": [[sequence, entry], …]}:
    every batch up to last_sequence is in the channel; receipts of the newest ones. Batches below `first_sequence` will not
    come: they are durable elsewhere."""

    KIND = 6
    token: int
    producer: str = ""
    is_durable: bool = False
    first_sequence: int = 1


class Send(Message, frozen=True):
    """The body is a whole `BatchCommand` with its payload; the client manager appends it, with the time in its
    `accepted_us`. `token` = its sequence.

    `kind` is what the producer takes the destination for; where it does not exist, it is created so.
    """

    KIND = 7
    token: int
    kind: Literal["queue", "topic"] = "queue"


class Receipted(Message, frozen=True):
    KIND = 8
    token: int
    entry: int
    copies: int
    is_synced: bool


class Attach(Message, frozen=True):
    """Open a receiver. `kind` is what the destination must be; it is created on first use where configuration allows.

    For a topic, `subscription` names a subscription (durable unless said otherwise), or "" asks for a non-durable one of this
    receiver. `match` says that the destination is a pattern over the names of topics. `held` are the ranges the client still
    holds when it attaches again after a lost link: they are not delivered again to anybody else.
    """

    KIND = 9
    token: int
    receiver: int
    destination: str
    kind: Literal["queue", "topic"]
    subscription: str = ""
    held: bytes = b""
    selector: str = ""
    match: Literal["name", "glob", "regex"] = "name"
    is_durable: bool = True
    is_shared: bool = False
    no_local: bool = False


class Credit(Message, frozen=True):
    """The receiver may be handed so many more events and bytes (the last event may go past the bytes)."""

    KIND = 10
    receiver: int
    events: int
    bytes: int


class Death(msgspec.Struct, array_like=True, frozen=True):
    """Why an event is in the dead queue: where it was given up, and when (ms since 1970; 0: not known)."""

    destination: str
    subscription: str
    code: str
    reason: str
    deliveries: int
    at_ms: int


class Slice(msgspec.Struct, array_like=True, frozen=True):
    """Events of one batch. `length` bytes of the body are a batch with just these events.

    `is_adjoining`: no position of this backlog that this receiver was not handed lies between the slice before (also of the
    frame before) and this one, so that one range may span both.
    """

    first: int  # position
    events: int
    deliveries: int  # how often it had been delivered before: 0 the first time
    is_adjoining: bool
    length: int
    destination: str = ""  # where it was sent, when that is not where the receiver is attached
    deaths: tuple[Death, ...] = ()  # of the dead queue: why all of these are there, oldest first
    accepted_us: int = 0  # when it was accepted, microseconds since 1970; 0: not known


class Deliver(Message, frozen=True):
    KIND = 11
    receiver: int
    slices: list[Slice]


class Settle(Message, frozen=True):
    """What a recipient decided on positions it holds: confirm, release (after delay_ms; counted unless never looked at),
    reject (reason).
    """

    KIND = 12
    token: int
    receiver: int
    verdict: Literal["confirm", "release", "reject"]
    ranges: bytes
    delivered_up_to: int = 0
    delay_ms: int = 0
    is_counted: bool = True
    reason: str = ""


class DetachReceiver(Message, frozen=True):
    """Close a receiver: what it holds is released uncounted; answered when that is applied."""

    KIND = 13
    token: int
    receiver: int


class Manage(Message, frozen=True):
    """`action` with its arguments, such as "create" {"name": …, "kind": …}; answered with a value. The list is in
    node/request.
    """

    KIND = 14
    token: int
    action: str
    arguments: dict[str, Any]


class Answered(Message, frozen=True):
    KIND = 15
    token: int
    value: Any = None


class Failed(Message, frozen=True):
    KIND = 16
    token: int
    code: str
    family: str
    sentence: str
    fields: dict[str, Any] = {}

    @classmethod
    def of(cls, token: int, error: HoldfastError) -> Failed:
        fields = {name: value for name, value in error.fields.items() if isinstance(value, str | int | float | bool | None)}
        return cls(token, error.code, error.family, error.sentence, fields)

    def error(self) -> HoldfastError:
        return by_code(self.code, self.sentence, self.fields, self.family)


class ReceiverClosed(Message, frozen=True):
    """The server closed a receiver (its destination was deleted, its session given up on); nothing more will come to it."""

    KIND = 17
    receiver: int
    code: str
    sentence: str


class PressureChanged(Message, frozen=True):
    KIND = 18
    is_short: bool
    events_reserve_bytes: int
    reason: str


class Ping(Message, frozen=True):
    KIND = 19


class Pong(Message, frozen=True):
    KIND = 20


class Goodbye(Message, frozen=True):
    """The last thing said on a link. A code that is not "" says why it ends."""

    KIND = 21
    code: str = ""
    sentence: str = ""


class ForgetProducer(Message, frozen=True):
    """This producer sends no more: after a batch was refused, the numbers behind it have a hole, which is skipped (rule 6).
    Answered when applied.
    """

    KIND = 22
    token: int
    producer: str


class Browse(Message, frozen=True):
    """Look at what waits, without taking it: at most `count` events from a cursor on (0: the oldest), those that match.

    With `bytes`, whole batches in pages of about so many: for who reads much, and does not ask how often it was delivered.
    """

    KIND = 23
    token: int
    destination: str
    subscription: str = ""
    cursor: int = 0
    count: int = 100
    selector: str = ""
    end: int = 0  # a place; 0: as far as there is
    bytes: int = 0  # of one page; 0: 256 KiB
    within: Bounds = EVERYTHING  # with `bytes`: positions and times of acceptance


class Browsed(Message, frozen=True):
    """The body is the batches, as in Deliver. `cursor` is where to go on."""

    KIND = 24
    token: int
    slices: list[Slice]
    cursor: int
    is_end: bool


class Part(Message, frozen=True):
    """The body is a whole `Part` command (rule 10); the client manager appends it, with the time if it has a
    batch. Answered with Receipted.

    `kind` is what its sender takes the destination for, as in Send. The first fragment of a large event says where that is bound
    for, so that what may not be sent there is refused before its body takes space.
    """

    KIND = 25
    token: int
    kind: Literal["queue", "topic"] = "queue"
    bound_for: str = ""
    is_again: bool = False  # it was sent before, over a link that was lost; asked of the first part of a stage


class SettledPart(msgspec.Struct, array_like=True, frozen=True):
    """What a transaction confirms of what one receiver holds."""

    receiver: int
    ranges: bytes
    delivered_up_to: int = 0


class Commit(Message, frozen=True):
    """All parts of an assembly become visible and all that is listed is confirmed, or nothing. Answered when applied."""

    KIND = 26
    token: int
    assembly: str
    parts: int
    settled: list[SettledPart] = []


class Abandon(Message, frozen=True):
    """An assembly will not be committed."""

    KIND = 27
    token: int
    assembly: str


class ReadFragment(Message, frozen=True):
    """A fragment of the body of a large event that this receiver holds; the first has index 0. Answered with Fragment."""

    KIND = 28
    token: int
    receiver: int
    position: int
    index: int


class Fragment(Message, frozen=True):
    """The body is the fragment."""

    KIND = 29
    token: int


class Publish(Message, frozen=True):
    """All parts of these stages become visible, in this order, or nothing; and once: a number that is not above the last one of
    its scope is a repetition. Answered when applied with {"is_new": bool, "events": how many became visible}.
    """

    KIND = 31
    token: int
    scope: str
    number: int
    stages: list[tuple[str, int]]  # name, parts


class DestinationPressure(Message, frozen=True):
    """A destination this session sends to has reached its high water, or has fallen below its low water again."""

    KIND = 30
    destination: str
    is_blocked: bool
    reason: str = ""
