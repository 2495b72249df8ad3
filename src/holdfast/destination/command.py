"""Commands: everything that changes anything, as it stands in a channel.

    kind u8 │ head length u16 │ head, msgpack array │ payload

The head is small and typed; the payload (a batch) is opaque. A command says what a client asked for or what the primary found.
It never depends on who applies it or when.

    who issues it    commands                                                        fenced by epoch
    client manager   batch, confirm, release, reject, create, ensure, delete,        no: never ignored
                     configure, subscribe, subscribe like, ensure subscription, unsubscribe, attach,
                     open producer, forget producer, part, commit, abandon, publish,
                     introduce, prepare, decision, final, complete, check
    primary          claim, detach, dead, carried, in hand, remove, revoke           yes: an older epoch's are ignored
                     (`detach`, `release` and `forget producer` come from a client manager, too, with epoch 0: never ignored)

Commands whose answer depends on state carry `origin` and `token`: who waits for the answer, and for which question. In a cluster
they carry a `stamp` too, before the head, so that they count once however often and late they come.
"""

from __future__ import annotations

import struct
from typing import Literal

import msgspec
from msgspec.structs import replace

from holdfast.destination.administration_command import (
    Command,
    Configure,
    Create,
    Delete,
    Ensure,
    EnsureSubscription,
    Purge,
    Remove,
    Subscribe,
    SubscribeLike,
    Unsubscribe,
)
from holdfast.destination.assembly_command import Abandon, Commit, Complete, Decision, Final, Part, Prepare, Publish, Settled
from holdfast.destination.cluster_command import Check, Introduce, Revoke
from holdfast.destination.stamp import KIND_MASK, STAMPED, Stamp
from holdfast.destination.stamp import encode as encode_stamp
from holdfast.errors import BadSetting, ProtocolError, TooLarge, UnknownVersion
from holdfast.event.event import NOT_READABLE

__all__ = [
    "HEAD_BYTES_MAX",
    "KINDS",
    "OFTEN_MS",
    "RANGES_MAX",
    "RELEASE_REASON_LENGTH_MAX",
    "Abandon",
    "Attach",
    "BatchCommand",
    "Buffer",
    "Carried",
    "Check",
    "Claim",
    "Command",
    "Commit",
    "Complete",
    "Configure",
    "Confirm",
    "Create",
    "Dead",
    "Decision",
    "Delete",
    "Detach",
    "Ensure",
    "EnsureSubscription",
    "Final",
    "ForgetProducer",
    "InHand",
    "Introduce",
    "OpenProducer",
    "Part",
    "Prepare",
    "Publish",
    "Purge",
    "Reject",
    "Release",
    "Remove",
    "Revoke",
    "Settled",
    "Stamp",
    "Subscribe",
    "SubscribeLike",
    "Unsubscribe",
    "Which",
    "accepted",
    "decode",
    "encode",
    "kind_of",
]

Buffer = bytes | memoryview
_LEAD = struct.Struct("<BH")
_LEAD_BYTES = _LEAD.size
HEAD_BYTES_MAX = (1 << 16) - 1
# Ranges of positions that one command names: half of what its head has room for.
RANGES_MAX = 2_048
# A released event that came back often waits so long at least: ten a second of them cost nothing, and nobody waits long.
OFTEN_MS = 1_000
# Characters of a reason that is kept with a released event.
RELEASE_REASON_LENGTH_MAX = 500
# A receiver of the session, the number of this verdict, from 1 on, and how many events it is about; 0: not said (`verdict`).
Which = tuple[int, int, int]


class BatchCommand(Command, frozen=True):
    """A producer's batch, the payload. `sequence` counts this producer's batches in this channel from 1 (rule 6). The client
    manager writes `accepted_us`, and `origin` where the destination deduplicates: it waits for the answer of `placing.batch`."""

    KIND = 1
    destination: str
    producer: str
    sequence: int
    accepted_us: int = 0  # microseconds since 1970; 0: not known
    origin: str = ""
    token: int = 0


class Confirm(Command, frozen=True):
    """A recipient has finished with these positions. `ranges`: position.Ranges as bytes."""

    KIND = 2
    destination: str
    subscription: str  # "" for a queue
    session: str
    ranges: bytes
    delivered_up_to: int = 0  # the newest position that was handed over; former releases counted deliveries by it
    origin: str = ""
    token: int = 0
    up_to: int = 0  # a place of a subscription: with this, everything before it is finished (see `places`)
    which: Which = (0, 0, 0)


class Release(Command, frozen=True):
    """A recipient gives these back, to be delivered again not before a time (0: at once). `is_counted`: a program saw them.
    `reason`: why; the last one is kept, and told with the event if it is redelivered too often."""

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
    which: Which = (0, 0, 0)
    wait: Literal["", "back-off", "exact"] = ""  # a program said so, without a delay, or with one, which counts alone
    often_ms: int = 0  # events that came back often wait so long at least (see `queue`); 0: written before this field
    reason: str = ""
    epoch: int = 0  # of a primary that releases for a receiver that died
    link: int = 0  # of a session whose client manager is gone: ignored if it has come by a later link; 0: by whatever link


class Reject(Command, frozen=True):
    """A recipient refuses these for good: they go to the dead queue with the reason. `code` "" means "rejected"."""

    KIND = 4
    destination: str
    subscription: str
    session: str
    ranges: bytes
    reason: str
    origin: str = ""
    token: int = 0
    at_ms: int = 0
    code: str = ""
    which: Which = (0, 0, 0)


class Attach(Command, frozen=True):
    """A session opens a receiver on a queue (subscription "") or on a subscription. Attaching again changes nothing.

    The first Attach of a session also introduces the session. `receiver` is unique within the session."""

    KIND = 9
    session: str
    receiver: int
    destination: str
    subscription: str = ""
    origin: str = ""
    token: int = 0
    selector: str = ""  # of a receiver of a queue: it gets only what matches
    is_owner: bool = False  # it reads by place, and its subscription is not deleted meanwhile
    take_over: bool = False  # of a durable subscription for one receiver: the present one, of the same user, is detached


class Detach(Command, frozen=True):
    """A receiver is gone, or with 0 the whole session and what belongs to it. Its events are delivered to others."""

    KIND = 10
    session: str
    receiver: int = 0
    at_ms: int = 0
    epoch: int = 0
    origin: str = ""
    token: int = 0
    link: int = 0  # of a session that was introduced: ignored if it has come by a later link; 0: by whatever link


class OpenProducer(Command, frozen=True):
    """A producer opens, or asks for its last sequence before it resends. A durable one outlives its session (a Recorder's).

    Batches below `first_sequence` will not come: a Recorder that was forwarded to another place before has them there."""

    KIND = 11
    producer: str
    session: str = ""
    is_durable: bool = False
    origin: str = ""
    token: int = 0
    first_sequence: int = 1
    client: str = ""  # of the producer, for subscriptions with `no_local`
    user: str = ""  # the only one who may open it again; "" where there are no users


class ForgetProducer(Command, frozen=True):
    """The producer will send no more: holes are skipped, and batches held back are placed (rule 6)."""

    KIND = 12
    producer: str
    origin: str = ""
    token: int = 0
    epoch: int = 0  # of the primary that says so, of a producer whose session is gone
    ended_at: int = 0  # the entry that ended its session: one that was opened again since is not forgotten


class Claim(Command, frozen=True):
    """A message manager becomes primary: epoch must be the current one + 1, otherwise the claim failed (rule 7)."""

    KIND = 13
    epoch: int
    node: str
    origin: str = ""
    token: int = 0
    start: str = ""  # of the node's process: only this one may act on the claim


class Carried(Command, frozen=True):
    """Stragglers copied forward so that their old segment can be freed (rule 9). The payload is the batches, one after the other.

    `entries` are their original entry numbers, `lengths` the length of each batch in the payload."""

    KIND = 14
    epoch: int
    entries: list[int]
    lengths: list[int]
    destinations: list[str] = msgspec.field(default_factory=list)  # where each was sent
    accepted: list[int] = msgspec.field(default_factory=list)  # when each was accepted, as in its own command


class Dead(Command, frozen=True):
    """The primary (epoch 0: an administrator) gives these positions up: to the dead queue with the reason and its `code`."""

    KIND = 15
    epoch: int
    destination: str
    subscription: str
    ranges: bytes
    reason: str
    code: str = "redelivered"
    at_ms: int = 0
    origin: str = ""
    token: int = 0


class InHand(Command, frozen=True):
    """The primary is about to hand these to a program. If both die then, these were delivered once more (rule 5)."""

    KIND = 21
    epoch: int
    backlog: tuple[str, str]
    holder: tuple[str, int]  # session, receiver
    ranges: bytes


KINDS: dict[int, type[Command]] = {
    kind.KIND: kind
    for kind in (
        BatchCommand, Confirm, Release, Reject, Create, Delete, Subscribe, Unsubscribe, Attach, Detach, OpenProducer,
        ForgetProducer, Claim, Carried, Dead, Part, Commit, Abandon, Configure, Publish, InHand, Ensure, EnsureSubscription,
        SubscribeLike, Remove, Purge, Introduce, Prepare, Decision, Final, Complete, Revoke, Check,
    )
}  # fmt: skip

_encode = msgspec.msgpack.Encoder().encode
_decoders = {number: msgspec.msgpack.Decoder(kind).decode for number, kind in KINDS.items()}


def encode(command: Command, payload: Buffer = b"", stamp: Stamp | None = None) -> bytes:
    """The bytes of a command. TooLarge when its head is too long; BadSetting for a value that cannot be written."""
    try:
        head = _encode(command)
    except (OverflowError, UnicodeEncodeError) as problem:
        raise BadSetting(
            f"a {type(command).__name__} command cannot be written ({problem}); give a smaller number, or valid text"
        ) from problem
    kind = command.KIND
    if stamp is not None:
        head, kind = encode_stamp(stamp) + head, kind | STAMPED
    if len(head) > HEAD_BYTES_MAX:
        raise TooLarge(
            f"a {type(command).__name__} command has a head of {len(head)} bytes and may have {HEAD_BYTES_MAX}; say less at once",
            length=len(head),
        )
    return b"".join((_LEAD.pack(kind, len(head)), head, payload))


def accepted(command: BatchCommand | Part, payload: Buffer, at_us: int) -> bytes:
    """The bytes of a client's command, with the time. Its names are bounded, so that its head is not too long."""
    head = _encode(replace(command, accepted_us=at_us))
    return b"".join((_LEAD.pack(command.KIND, len(head)), head, payload))


def kind_of(data: Buffer) -> int:
    return data[0] & KIND_MASK


def decode(data: Buffer) -> tuple[Command, memoryview]:
    """The command and its payload, which is not copied. ProtocolError for anything that is not a command."""
    view = memoryview(data)
    if len(view) < _LEAD_BYTES:
        raise ProtocolError(f"a command of {len(view)} bytes is shorter than its lead; the sender is broken")
    kind, length = _LEAD.unpack_from(view)
    start, end = _LEAD_BYTES, _LEAD_BYTES + length
    decode_head = _decoders.get(kind)
    if decode_head is None and kind & STAMPED:
        kind &= KIND_MASK
        decode_head = _decoders.get(kind)
        start += 1 + view[start] if start < len(view) else 0
    if decode_head is None:
        raise UnknownVersion(f"command kind {kind} is not known to this release; upgrade it", kind=kind)
    if end > len(view):
        raise ProtocolError(f"a command says its head has {length} bytes and ends before; the sender is broken", kind=kind)
    try:
        return decode_head(view[start:end]), view[end:]
    except NOT_READABLE as problem:
        raise ProtocolError(f"the head of a {KINDS[kind].__name__} command cannot be read: {problem}", kind=kind) from problem
