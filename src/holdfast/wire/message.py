"""The messages between a client and a client manager: the heads of frames.

`conversation` says which of them may come when, `frame` how they look as bytes.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.errors import HoldfastError, by_code
from holdfast.event.extent import EVERYTHING, Bounds
from holdfast.wire.message_part import Message, Participant, SettledPart, Slice

# Lengths of the texts of an error, in characters.
SENTENCE_LENGTH_MAX = 16_000
FIELD_LENGTH_MAX = 4_000


class Hello(Message, frozen=True):
    KIND = 1
    magic: str
    versions: list[int]
    name: str = ""  # of the client program, for people
    user: str = ""
    password: str = ""
    client: str = ""  # made by the client once, the same on all its links: "not my own" events are those of others

    def __repr__(self) -> str:
        """Show everything but the password: this text may be logged."""
        shown = "***" if self.password else ""
        return f"Hello(versions={self.versions}, name={self.name!r}, user={self.user!r}, password={shown!r})"


class Welcome(Message, frozen=True):
    KIND = 2
    version: int
    node: str
    frame_bytes_max: int
    heartbeat_ms: int  # each side says something at least this often, and gives up after a silence of three heartbeats
    window: int  # batches a producer may have sent and not receipted
    now_ms: int = 0  # the server's time, ms since 1970; 0: it does not tell
    incarnation: str = ""  # of its channel: sessions, positions and sequences of another one mean nothing here; "": not told
    has_users: bool = True  # False: it asks nobody who they are. A server that does not tell may have some
    channels: list[str] = msgspec.field(default_factory=list)  # of its message managers; none where there is one alone
    local: str = ""  # the name of its local socket, for clients on its machine; "": it has none, or asks who they are
    heard_from: str = ""  # the client's address, as the server sees it: another than its own if something is between them


class OpenSession(Message, frozen=True):
    """`resume` is the id of the session when the link was lost; "" for a new one.

    A session that is not `is_resumable` is given up at once when its link is lost. It belongs to one message manager, that of
    `channel`: all that it sends, receives and asks is there (ADR 22). "": one that the server chooses. `link` counts the links of
    the client: by it a cluster knows which of two nodes has the session now.
    """

    KIND = 3
    token: int
    name: str = ""
    resume: str = ""
    is_resumable: bool = True
    channel: str = ""
    link: int = 0


class SessionOpened(Message, frozen=True):
    KIND = 4
    token: int
    session: str  # the session's id
    first_id: bytes  # 16 bytes: the client counts its event ids up from here (32 bits of counter)
    is_resumed: bool
    channel: str = ""  # that of its message manager, as positions name it; "" where there is one alone
    incarnation: str = ""  # of this channel, where there are several; the Welcome tells that of one alone


class CloseSession(Message, frozen=True):
    KIND = 5
    token: int


class OpenProducer(Message, frozen=True):
    """`producer` "" asks for a new one. Answered with {"producer": id, "last_sequence": n, "receipts": [[sequence, entry], …]}.

    Every batch up to last_sequence is in the channel; the receipts are those of the newest ones. Batches below `first_sequence`
    will not come: they are durable elsewhere.
    """

    KIND = 6
    token: int
    producer: str = ""
    is_durable: bool = False
    first_sequence: int = 1


class Send(Message, frozen=True):
    """The body is a whole `BatchCommand` with its payload; the client manager appends it, with the time in its
    `accepted_us`. `token` = its sequence.

    `kind` is what the producer expects the destination to be; a missing one is created so. `is_patient`: recipients come first,
    the receipt may follow their deliveries.
    """

    KIND = 7
    token: int
    kind: Literal["queue", "topic"] = "queue"
    is_patient: bool = False


class Receipted(Message, frozen=True):
    """A batch is durable. Where its destination deduplicates, it is applied too, and `repeated` names events that came before:
    (index of the first, how many, position of the event that the first of them repeats)."""

    KIND = 8
    token: int
    entry: int
    copies: int
    is_synced: bool
    repeated: tuple[tuple[int, int, int], ...] = ()
    channel: str = ""  # in which the entry is; "" where there is one alone


class Attach(Message, frozen=True):
    """Open a receiver. `kind` is what the destination must be; it is created on first use where configuration allows.

    For a topic, `subscription` names a subscription (durable unless said otherwise), or "" asks for one of this receiver. `match`
    says that the destination is a pattern over the names of topics. `held` are the ranges the client still holds when it attaches
    again: nobody else gets them. `ahead` are the positions its program has not got yet, in order; None if it does not say."""

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
    replace: bool = False  # a durable subscription that is there on other terms, with what waits in it
    is_owner: bool = False  # it reads by place, and its subscription is not deleted under it
    ahead: bytes | None = None
    take_over: bool = False  # of a durable subscription for one: detach its present receiver, if it is the same user's
    limits: tuple[int, int, int] | None = None  # events, bytes, ms: past one of them the subscription is removed
    keeps: bool = False  # it keeps what it is handed: it may come holding events, and nothing counts as delivered when it is gone


class Credit(Message, frozen=True):
    """The receiver may be handed so many more events and bytes (the last event may go past the bytes)."""

    KIND = 10
    receiver: int
    events: int
    bytes: int
    handed: int = 0  # the position that the program got last; 0: none yet
    withdrawn: int = 0  # so many events fewer; those on their way come nevertheless, and are taken off the next credit


class Deliver(Message, frozen=True):
    KIND = 11
    receiver: int
    slices: list[Slice]
    is_careful: bool = False  # one event at a time: a program may have died of one; Credit asks for the next
    channel: str = ""  # of the positions; "" where there is one alone


class Settle(Message, frozen=True):
    """The verdict of a recipient on positions it holds: confirm, release (after delay_ms; counted unless the program never saw
    them), reject (reason; code "unreadable" when their heads cannot be read, "failed" when a worker failed to its last try).
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
    code: Literal["", "unreadable", "failed"] = ""
    number: int = 0  # counts the verdicts of this receiver from 1 on; a repetition on another link has the same number
    events: int = 0  # how many events it is about; 0: not said
    handed: int = 0  # as in Credit
    wait: Literal["", "back-off", "exact"] = ""  # of a release that the program said: without a delay, or with one
    death: str = ""  # of a reject: the code of a death elsewhere, such as "expired"; an older server takes it for rejected
    channel: str = ""  # of the positions; "" where there is one alone


class DetachReceiver(Message, frozen=True):
    """Close a receiver: events it holds are released uncounted. Answered when that is applied."""

    KIND = 13
    token: int
    receiver: int


class Manage(Message, frozen=True):
    """An action of `node.administration.actions` with its arguments, such as "create" {"name": …}; answered with a value."""

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
    fields: dict[str, Any] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, token: int, error: HoldfastError) -> Failed:
        """Return the message for an error. Long texts are cut, so that the frame fits."""
        fields = {
            name: value[:FIELD_LENGTH_MAX] if isinstance(value, str) else value
            for name, value in error.fields.items()
            if isinstance(value, str | int | float | bool | None)
        }
        return cls(token, error.code, error.family, error.sentence[:SENTENCE_LENGTH_MAX], fields)

    def error(self) -> HoldfastError:
        return by_code(self.code, self.sentence, self.fields, self.family)


class ReceiverClosed(Message, frozen=True):
    """The server closed a receiver (its destination was deleted, its session given up); nothing more will come to it."""

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
    now_ms: int = 0  # a server's time, ms since 1970; 0: not told


class Pong(Message, frozen=True):
    KIND = 20
    now_ms: int = 0  # as in Ping


class Goodbye(Message, frozen=True):
    """The last message on a link. A code that is not "" says why it ends."""

    KIND = 21
    code: str = ""
    sentence: str = ""


class ForgetProducer(Message, frozen=True):
    """This producer sends no more: the hole of a refused batch in its numbers is skipped (rule 6). Answered when applied."""

    KIND = 22
    token: int
    producer: str


class Browse(Message, frozen=True):
    """Look at waiting events without taking them: at most `count` that match, from a cursor on (0: the oldest).

    With `bytes`, return whole batches in pages of about that size: for reading much, without the counts of deliveries.
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
    """The body holds the batches, as in Deliver. The next page begins at `cursor`."""

    KIND = 24
    token: int
    slices: list[Slice]
    cursor: int
    is_end: bool


class Part(Message, frozen=True):
    """The body is a whole `Part` command (rule 10); the client manager appends it, with the time if it has a
    batch. Answered with Receipted.

    `kind` is what its sender expects the destination to be, as in Send. The first fragment of a large event names its destination
    (`bound_for`), so that an event that may not be sent there is refused before its body takes space.
    """

    KIND = 25
    token: int
    kind: Literal["queue", "topic"] = "queue"
    bound_for: str = ""
    is_again: bool = False  # it was sent before, over a link that was lost; asked of the first part of a stage


class Commit(Message, frozen=True):
    """All parts of an assembly become visible and all listed positions are confirmed, or nothing is. Answered when applied."""

    KIND = 26
    token: int
    assembly: str
    parts: int
    settled: list[SettledPart] = msgspec.field(default_factory=list)


class CommitAll(Message, frozen=True):
    """As Commit, over several message managers. Asked again, by any session of its user, it is answered with what was decided."""

    KIND = 40
    token: int
    participants: list[Participant]  # ascending by channel, each once


class Abandon(Message, frozen=True):
    """An assembly will not be committed."""

    KIND = 27
    token: int
    assembly: str


class ReadFragment(Message, frozen=True):
    """A fragment of the body of a large event that this receiver holds, or (receiver 0) that waits in this backlog."""

    KIND = 28
    token: int
    receiver: int
    position: int
    index: int  # from 0 on; answered with Fragment
    destination: str = ""  # or a pattern, as in Browse
    subscription: str = ""
    channel: str = ""  # of the position; "" where there is one alone


class Fragment(Message, frozen=True):
    """The body is the fragment."""

    KIND = 29
    token: int


class Publish(Message, frozen=True):
    """All parts of these stages become visible, in this order and once, or nothing does. A number that is not above the last one
    of its scope is a repetition. Answered when applied with {"is_new", "events": how many became visible}."""

    KIND = 31
    token: int
    scope: str
    number: int
    stages: list[tuple[str, int]]  # name, parts
    channels: list[str] = msgspec.field(default_factory=list)  # of each stage; none: all are in that of the session


class DestinationPressure(Message, frozen=True):
    """A destination this session sends to has reached its high water, or has fallen below its low water again."""

    KIND = 30
    destination: str
    is_blocked: bool
    reason: str = ""
