"""Frames: how messages between a client and a client manager travel, on one link, for any number of sessions.

    length u32 │ kind u8 │ session u16 │ head length u32 │ head, msgpack array │ body       little-endian

`length` counts everything after itself. Session 0 is the link itself; the client numbers its sessions from 1. The body is
opaque here (a batch command, or batches). A frame longer than the limit of the greeting is refused from its first four bytes.

    client says                                          server says
    Hello ─────────────────────────────────────────────▶ Welcome, or Goodbye with the reason
    OpenSession (new, or resuming) ────────────────────▶ SessionOpened, or Failed
    Send (a batch command; token = its sequence) ──────▶ Receipted, or Failed
    Attach, Settle…, DetachReceiver, Manage, OpenProducer,
    ForgetProducer, Commit, CommitAll, Abandon, Publish ▶ Answered, or Failed
    Part (of an assembly) ─────────────────────────────▶ Receipted, or Failed
    Browse ────────────────────────────────────────────▶ Browsed, or Failed
    ReadFragment ──────────────────────────────────────▶ Fragment, or Failed
    Credit                                               Deliver (as far as credit goes)
    Ping ◀─────────────────────────────────────────────▶ Pong
    CloseSession ──────────────────────────────────────▶ Answered
    Goodbye ◀──────────────────────────────────────────▶ Goodbye
                                                         ReceiverClosed, PressureChanged,
                                                         DestinationPressure, SessionSuspended, Leave
                                                         (without a question)

Every question carries a token, unique in its session; the answer repeats it. Nothing is answered twice.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import msgspec

from holdfast.errors import ProtocolError, TooLarge
from holdfast.event.event import NOT_READABLE
from holdfast.wire.message import (
    Abandon,
    Answered,
    Attach,
    Browse,
    Browsed,
    CloseSession,
    Commit,
    CommitAll,
    Credit,
    Deliver,
    DestinationPressure,
    DetachReceiver,
    Failed,
    ForgetProducer,
    Fragment,
    Goodbye,
    Hello,
    Manage,
    OpenProducer,
    OpenSession,
    Part,
    Ping,
    Pong,
    PressureChanged,
    Publish,
    ReadFragment,
    Receipted,
    ReceiverClosed,
    Send,
    SessionOpened,
    Settle,
    Welcome,
)
from holdfast.wire.message_part import Leave, Message, Participant, SessionSuspended, SettledPart, Slice

Buffer = bytes | memoryview

VERSIONS = (1,)
MAGIC = "holdfast"
# A batch is at most 1 MiB; the rest is for the heads of a frame that delivers many small batches.
FRAME_BYTES_MAX = (1 << 20) + (64 << 10)
LENGTH = struct.Struct("<I")
_LEAD = struct.Struct("<IBHI")
LEAD_BYTES = _LEAD.size

__all__ = [
    "Abandon",
    "Answered",
    "Attach",
    "Browse",
    "Browsed",
    "CloseSession",
    "Commit",
    "CommitAll",
    "Credit",
    "Deliver",
    "DestinationPressure",
    "DetachReceiver",
    "Failed",
    "ForgetProducer",
    "Fragment",
    "Goodbye",
    "Hello",
    "Leave",
    "Manage",
    "Message",
    "OpenProducer",
    "OpenSession",
    "Part",
    "Participant",
    "Ping",
    "Pong",
    "PressureChanged",
    "Publish",
    "ReadFragment",
    "Receipted",
    "ReceiverClosed",
    "Send",
    "SessionOpened",
    "SessionSuspended",
    "Settle",
    "SettledPart",
    "Slice",
    "Welcome",
]

KINDS: dict[int, type[Message]] = {
    kind.KIND: kind
    for kind in (
        Hello, Welcome, OpenSession, SessionOpened, CloseSession, OpenProducer, Send, Receipted, Attach, Credit,
        Deliver, Settle, DetachReceiver, Manage, Answered, Failed, ReceiverClosed, PressureChanged, Ping, Pong,
        Goodbye, ForgetProducer, Browse, Browsed, Part, Commit, Abandon, ReadFragment, Fragment, DestinationPressure,
        Publish, SessionSuspended, CommitAll, Leave,
    )
}  # fmt: skip

_encoder = msgspec.msgpack.Encoder()
_decoders = {number: msgspec.msgpack.Decoder(kind) for number, kind in KINDS.items()}


class Frame(NamedTuple):
    session: int
    message: Message
    body: Buffer = b""


def encode_lead(session: int, message: Message, body_length: int) -> bytes:
    """Return a frame without its body, so that the body need not be copied. TooLarge past FRAME_BYTES_MAX."""
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
    """Return the frame of these bytes, the length included. Its body is a view of them."""
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
    except NOT_READABLE as problem:
        raise ProtocolError(f"the head of a {KINDS[kind].__name__} frame cannot be read: {problem}", kind=kind) from problem
