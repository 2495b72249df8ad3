"""Frames: what a client and a client manager say to each other, on one link, for any number of sessions.

    length u32 │ kind u8 │ session u16 │ head length u32 │ head, msgpack array │ body       little-endian

`length` counts everything after itself. Session 0 is the link itself; the client numbers its sessions from 1. The body is
opaque here (a batch command, or batches). A frame longer than the limit of the greeting is refused from its first four bytes.

    client says                                          server says
    Hello ─────────────────────────────────────────────▶ Welcome, or Goodbye with the reason
    OpenSession (new, or resuming) ────────────────────▶ SessionOpened, or Failed
    Send (a batch command; token = its sequence) ──────▶ Receipted, or Failed
    Attach, Settle…, DetachReceiver, Manage, OpenProducer,
    ForgetProducer ────────────────────────────────────▶ Answered, or Failed
    Credit                                               Deliver (as far as credit goes)
    Ping ◀─────────────────────────────────────────────▶ Pong
    CloseSession ──────────────────────────────────────▶ Answered
    Goodbye ◀──────────────────────────────────────────▶ Goodbye
                                                         ReceiverClosed, PressureChanged (told, not asked)

Every question carries a token, unique in its session; the answer repeats it. Nothing is answered twice.
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar, Literal, NamedTuple

import msgspec

from holdfast.errors import HoldfastError, ProtocolError, TooLarge, by_code

Buffer = bytes | memoryview

VERSIONS = (1,)
MAGIC = "holdfast"
# A batch is at most 1 MiB; the rest is for the heads of a frame that delivers many small batches.
FRAME_BYTES_MAX = (1 << 20) + (64 << 10)
LENGTH = struct.Struct("<I")
_LEAD = struct.Struct("<IBHI")
LEAD_BYTES = _LEAD.size


class Message(msgspec.Struct, array_like=True, frozen=True):
    """The head of a frame. New fields go last, with a default."""

    KIND: ClassVar[int] = 0


class Hello(Message, frozen=True):
    KIND = 1
    magic: str
    versions: list[int]
    name: str = ""  # of the client program, for people


class Welcome(Message, frozen=True):
    KIND = 2
    version: int
    node: str
    frame_bytes_max: int
    heartbeat_ms: int  # each side says something at least this often, and gives up after three times as long a silence
    window: int  # batches a producer may have sent and not receipted


class OpenSession(Message, frozen=True):
    """`resume` is the session's id when the link was lost; "" for a new one."""

    KIND = 3
    token: int
    name: str = ""
    resume: str = ""


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
    """The body is a whole `BatchCommand` with its payload; the client manager appends it as it is. `token` = its sequence.

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

    For a topic, `subscription` names a durable subscription, or "" asks for a non-durable one of this receiver. `held` are the
    ranges the client still holds when it attaches again after a lost link: they are not delivered again to anybody else.
    """

    KIND = 9
    token: int
    receiver: int
    destination: str
    kind: Literal["queue", "topic"]
    subscription: str = ""
    held: bytes = b""


class Credit(Message, frozen=True):
    """The receiver may be handed so many more events and bytes (the last event may go past the bytes)."""

    KIND = 10
    receiver: int
    events: int
    bytes: int


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


KINDS: dict[int, type[Message]] = {
    kind.KIND: kind
    for kind in (
        Hello, Welcome, OpenSession, SessionOpened, CloseSession, OpenProducer, Send, Receipted, Attach, Credit, Deliver, Settle,
        DetachReceiver, Manage, Answered, Failed, ReceiverClosed, PressureChanged, Ping, Pong, Goodbye, ForgetProducer,
    )
}  # fmt: skip

_encoder = msgspec.msgpack.Encoder()
_decoders = {number: msgspec.msgpack.Decoder(kind) for number, kind in KINDS.items()}


class Frame(NamedTuple):
    session: int
    message: Message
    body: Buffer = b""


def encode_lead(session: int, message: Message, body_length: int) -> bytes:
    """Everything of a frame but its body, so that a body need not be copied to be sent. TooLarge past FRAME_BYTES_MAX."""
    head = _encoder.encode(message)
    if len(head) + body_length > FRAME_BYTES_MAX - LEAD_BYTES:
        raise TooLarge(
            f"a {type(message).__name__} frame of {len(head) + body_length} bytes is over the limit of {FRAME_BYTES_MAX}; "
            "ask for less at once",
            length=len(head) + body_length,
        )
    return _LEAD.pack(LEAD_BYTES - 4 + len(head) + body_length, message.KIND, session, len(head)) + head


def check_length(length: int, frame_bytes_max: int) -> None:
    if length > frame_bytes_max:
        raise TooLarge(f"a frame of {length} bytes is over the limit of {frame_bytes_max}; send smaller batches", length=length)
    if length < LEAD_BYTES - 4:
        raise ProtocolError(
            f"a frame of {length} bytes is shorter than its own lead; the other side does not speak this protocol"
        )


def decode(data: Buffer) -> Frame:
    """A frame from all its bytes, the length included. The body stays where it lies."""
    view = memoryview(data)
    _, kind, session, head_length = _LEAD.unpack_from(view)
    end = LEAD_BYTES + head_length
    decoder = _decoders.get(kind)
    if decoder is None:
        raise ProtocolError(f"frame kind {kind} is not known; the other side is newer or does not speak this protocol", kind=kind)
    if end > len(view):
        raise ProtocolError(f"a frame's head of {head_length} bytes goes past its end", kind=kind)
    try:
        return Frame(session, decoder.decode(view[LEAD_BYTES:end]), view[end:])
    except (msgspec.DecodeError, msgspec.ValidationError) as problem:
        raise ProtocolError(f"the head of a {KINDS[kind].__name__} frame cannot be read: {problem}", kind=kind) from problem
