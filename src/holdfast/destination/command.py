"""Commands: everything that changes anything, as it stands in a channel.

    kind u8 │ head length u16 │ head, msgpack array │ payload

The head is small and typed; the payload (a batch) is opaque. A command says what a client asked for or what the primary found;
it never depends on who applies it or when.

    who issues it    commands                                                        fenced by epoch
    client manager   batch, confirm, release, reject, create, delete, configure,     no: never ignored
                     subscribe, unsubscribe, attach, open producer, forget producer,
                     part, commit, abandon, publish
    primary          claim, detach, dead, carried                                    yes: an older epoch's are ignored
                     (`detach` of a session that said goodbye comes from its client manager, with epoch 0: never ignored)

Commands whose answer depends on state carry `origin` and `token`: who waits for the answer, and for which question.
"""

from __future__ import annotations

import struct
from typing import ClassVar, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.destination.settings import NUMBER_MAX, Settings
from holdfast.errors import BadSetting, ProtocolError, TooLarge, UnknownVersion

__all__ = ["NUMBER_MAX", "Settings"]  # spoken of together with commands

Buffer = bytes | memoryview
_LEAD = struct.Struct("<BH")
_LEAD_BYTES = _LEAD.size
HEAD_BYTES_MAX = (1 << 16) - 1
# Ranges of positions that one command names: half of what its head has room for.
RANGES_MAX = 2_048


class Command(msgspec.Struct, array_like=True, frozen=True):
    """What all commands have in common: a kind, and a head that is a msgpack array (new fields go last, with a default)."""

    KIND: ClassVar[int] = 0


class BatchCommand(Command, frozen=True):
    """A producer's batch. `sequence` counts this producer's batches in this channel from 1 (rule 6). The payload is the batch.

    `accepted_us` is written by the client manager that appends it, whatever the client wrote there.
    """

    KIND = 1
    destination: str
    producer: str
    sequence: int
    accepted_us: int = 0  # microseconds since 1970; 0: not known


class Confirm(Command, frozen=True):
    """A recipient has finished with these positions. `ranges`: position.Ranges as bytes.

    `delivered_up_to` is the newest position of this backlog that was handed to any recipient, as far as the sender knows (rule
    5).
    """

    KIND = 2
    destination: str
    subscription: str  # "" for a queue
    session: str
    ranges: bytes
    delivered_up_to: int = 0
    origin: str = ""
    token: int = 0
    up_to: int = 0  # a place of a subscription: with this, everything before it is finished (see `extent`)


class Release(Command, frozen=True):
    """A recipient gives these back, to be delivered again not before a time (0: at once). `is_counted`: it had been looked at."""

    KIND = 3
    destination: str
    subscription: str
    session: str
    ranges: bytes
    not_before_ms: int = 0
    is_counted: bool = True
    origin: str = ""
    token: int = 0
    at_ms: int = 0  # when it was said: a destination's back-off counts from here


class Reject(Command, frozen=True):
    """A recipient refuses these for good: they go to the dead queue with the reason."""

    KIND = 4
    destination: str
    subscription: str
    session: str
    ranges: bytes
    reason: str
    origin: str = ""
    token: int = 0
    at_ms: int = 0


class Create(Command, frozen=True):
    """Create a destination. `is_implicit`: on first use; then an existing one of the same kind is fine."""

    KIND = 5
    name: str
    kind: Literal["queue", "topic"]
    settings: Settings = Settings()
    is_implicit: bool = False
    origin: str = ""
    token: int = 0
    session: str = ""  # of a temporary destination: it goes with this session, whose client alone may receive from it


class Delete(Command, frozen=True):
    KIND = 6
    name: str
    origin: str = ""
    token: int = 0
    at_ms: int = 0


class Subscribe(Command, frozen=True):
    """Create a subscription, if it is not there, of a topic or (`match` glob or regex) of all topics whose names match, now and
    later (rule 12).

    A non-durable one belongs to a session and goes with it; a shared non-durable one has no session and goes with its last
    receiver. A durable one that is there with another selector or `no_local` is made anew, unless it has receivers.
    `client`: with `no_local`, whose events it does not want.
    """

    KIND = 7
    topic: str  # a name, or a pattern
    name: str
    is_durable: bool
    session: str = ""
    origin: str = ""
    token: int = 0
    match: Literal["name", "glob", "regex"] = "name"
    selector: str = ""
    is_shared: bool = False
    no_local: bool = False
    client: str = ""


class Unsubscribe(Command, frozen=True):
    KIND = 8
    topic: str
    name: str
    origin: str = ""
    token: int = 0


class Attach(Command, frozen=True):
    """A session opens a receiver on a queue (subscription "") or on a subscription. Attaching again changes nothing.

    The first Attach of a session also introduces the session. `receiver` is unique within the session.
    """

    KIND = 9
    session: str
    receiver: int
    destination: str
    subscription: str = ""
    origin: str = ""
    token: int = 0
    selector: str = ""  # of a receiver of a queue: it gets only what matches


class Detach(Command, frozen=True):
    """A receiver (or with 0, the whole session with its receivers, non-durable subscriptions) is gone; what it held is
    delivered to others.
    """

    KIND = 10
    session: str
    receiver: int = 0
    at_ms: int = 0
    epoch: int = 0
    origin: str = ""
    token: int = 0


class OpenProducer(Command, frozen=True):
    """A producer opens, or asks for its last sequence before it resends. A durable one outlives its session (a Recorder's).

    Batches below `first_sequence` will not come: a Recorder that was forwarded to another place before has them there.
    """

    KIND = 11
    producer: str
    session: str = ""
    is_durable: bool = False
    origin: str = ""
    token: int = 0
    first_sequence: int = 1
    client: str = ""  # whose producer it is, for subscriptions that want nothing of their own client


class ForgetProducer(Command, frozen=True):
    """The producer will send no more: holes are skipped and what is held is placed (rule 6)."""

    KIND = 12
    producer: str
    origin: str = ""
    token: int = 0


class Claim(Command, frozen=True):
    """A message manager becomes primary: epoch must be the current one + 1, otherwise the claim failed (rule 7)."""

    KIND = 13
    epoch: int
    node: str
    origin: str = ""
    token: int = 0


class Carried(Command, frozen=True):
    """Stragglers copied forward so that their old segment can be freed (rule 9). The payload is the batches, one after the other.

    `entries` are their original entry numbers, `lengths` the length of each batch in the payload.
    """

    KIND = 14
    epoch: int
    entries: list[int]
    lengths: list[int]
    destinations: list[str] = []  # where each was sent
    accepted: list[int] = []  # when each was accepted, as in its own command


class Dead(Command, frozen=True):
    """The primary gives up on these positions of a backlog: to the dead queue with the reason. `code` says it for programs."""

    KIND = 15
    epoch: int
    destination: str
    subscription: str
    ranges: bytes
    reason: str
    code: str = "redelivered"
    at_ms: int = 0


class Part(Command, frozen=True):
    """A part of an assembly (rule 10): what is bigger than one command. Invisible until a `Commit` names the assembly.

    With a destination, the payload is a batch for it, as of a `BatchCommand`. Without, it is a fragment of a large event's body.
    The batch of a large event has that one event, with an empty body; `fragments` are the numbers (first, last) of the parts
    that are its body, all equally long but the last, `fragment_bytes` each.
    Parts are numbered from 1; one that comes twice counts once.
    """

    KIND = 16
    session: str
    assembly: str
    number: int
    destination: str = ""
    fragments: tuple[int, int] = (0, 0)
    fragment_bytes: int = 0
    large_bytes: int = 0
    accepted_us: int = 0  # of a part with a batch, as in a `BatchCommand`


class Settled(msgspec.Struct, array_like=True, frozen=True):
    """What a commit confirms of one backlog."""

    destination: str
    subscription: str
    ranges: bytes
    delivered_up_to: int = 0


class Commit(Command, frozen=True):
    """Place parts 1 .. `parts` of an assembly in the order of their numbers and confirm what is listed: all, or nothing (B11).

    Refused as a whole with TransactionAborted when a part is missing, a destination is gone, or something to be confirmed is
    finished already. Said again by its session, it is answered as it was the first time.
    """

    KIND = 17
    session: str
    assembly: str
    parts: int
    settled: list[Settled] = []
    client: str = ""
    origin: str = ""
    token: int = 0


class Abandon(Command, frozen=True):
    """An assembly will not be committed: its parts are let go. Abandoning what is not there is fine. Of stages the payload may
    name more, a msgpack array of names.
    """

    KIND = 18
    session: str
    assembly: str
    epoch: int = 0
    origin: str = ""
    token: int = 0


class Configure(Command, frozen=True):
    """Change those settings of a destination that are named in `changed`; the others stay as they are."""

    KIND = 19
    name: str
    settings: Settings
    origin: str = ""
    token: int = 0
    changed: list[str] = []


class Publish(Command, frozen=True):
    """Place all parts of all these stages, in this order, unless the scope has published this number or a higher one: once.

    A stage is an assembly of no session: in the `session` of its parts, and here, stands "/" and its user. The payload is the
    stages, a msgpack array of [name, parts].
    """

    KIND = 20
    session: str
    scope: str
    number: int
    client: str = ""
    origin: str = ""
    token: int = 0


KINDS: dict[int, type[Command]] = {
    kind.KIND: kind
    for kind in (
        BatchCommand, Confirm, Release, Reject, Create, Delete, Subscribe, Unsubscribe, Attach, Detach, OpenProducer,
        ForgetProducer, Claim, Carried, Dead, Part, Commit, Abandon, Configure,
        Publish,
    )
}  # fmt: skip

_encode = msgspec.msgpack.Encoder().encode
_decoders = {number: msgspec.msgpack.Decoder(kind).decode for number, kind in KINDS.items()}

CommandType = TypeVar("CommandType", bound=Command)


def encode(command: Command, payload: Buffer = b"") -> bytes:
    """TooLarge when a name, a reason or a list of ranges is longer than a head may be; BadSetting for what cannot be written."""
    try:
        head = _encode(command)
    except (OverflowError, UnicodeEncodeError) as problem:
        raise BadSetting(
            f"a {type(command).__name__} command cannot be written down ({problem}); give a smaller number, or valid text"
        ) from problem
    if len(head) > HEAD_BYTES_MAX:
        raise TooLarge(
            f"a {type(command).__name__} command has a head of {len(head)} bytes and may have {HEAD_BYTES_MAX}; say less at once",
            length=len(head),
        )
    return b"".join((_LEAD.pack(command.KIND, len(head)), head, payload))


def accepted(command: BatchCommand | Part, payload: Buffer, at_us: int) -> bytes:
    """A client's command as it is appended: with the time at which that is done.

    Its names are bounded by who checked it: its head has room for the time.
    """
    head = _encode(replace(command, accepted_us=at_us))
    return b"".join((_LEAD.pack(command.KIND, len(head)), head, payload))


def kind_of(data: Buffer) -> int:
    return data[0]


def decode(data: Buffer) -> tuple[Command, memoryview]:
    """The command and its payload, which stays where it lies. ProtocolError for anything that is not a command."""
    view = memoryview(data)
    if len(view) < _LEAD_BYTES:
        raise ProtocolError(f"a command of {len(view)} bytes is shorter than its lead; the sender is broken")
    kind, length = _LEAD.unpack_from(view)
    decode_head = _decoders.get(kind)
    if decode_head is None:
        raise UnknownVersion(f"command kind {kind} is not known to this release; upgrade it", kind=kind)
    end = _LEAD_BYTES + length
    if end > len(view):
        raise ProtocolError(f"a command says its head has {length} bytes and ends before; the sender is broken", kind=kind)
    try:
        return decode_head(view[_LEAD_BYTES:end]), view[end:]
    except (msgspec.DecodeError, msgspec.ValidationError) as problem:
        raise ProtocolError(f"the head of a {KINDS[kind].__name__} command cannot be read: {problem}", kind=kind) from problem
