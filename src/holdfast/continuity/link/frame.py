"""Frames of the answer link, between a listener, which dials, and an engine.

    ┌──────────────┬──────────────┬──────────────────────────────┐
    │ length  u32  │ crc-32c u32  │ msgpack: a tagged array       │   length counts the message alone; big-endian
    └──────────────┴──────────────┴──────────────────────────────┘

    listener ──▶ engine     Hello, Answered, State, Seen, Running
    engine ──▶ listener     Welcome, Read, Stop, Resume, Roll, Traced, Goodbye, SocketOpen
    both ways               SocketMessage, SocketTaken, SocketClose: of a WebSocket that is passed through (`socket_end`);
                            a listener begins it with SocketOpened or SocketRefused

A listener dials only engines that are registered in the topic, and goes on only if the start id in `Welcome` is the one that is
registered: no bodies go to a port that another program has taken (continuity rule 17). An engine goes on only with listeners of
its domain.
Memory: a frame is at most FRAME_MAX; a peer that sends a larger one, or a wrong check sum, loses its link.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Literal

import crc32c
import msgspec

from holdfast.continuity.answer import Head, Outcome, Part
from holdfast.continuity.request import Content, Headers
from holdfast.errors import ProtocolError

VERSION = 1
FRAME_MAX = 4 << 20
HEAD_BYTES = 8

ServerState = Literal["joining", "current", "behind", "in doubt", "rebuilding", "unknown", "drained", "removed"]
Role = Literal["server", "shadow"]


class _Message(msgspec.Struct, array_like=True, frozen=True, tag=True):
    pass


class Hello(_Message, frozen=True, tag=1):
    """A listener introduces itself."""

    version: int
    domain: str
    server: str
    site: str
    role: Role
    store: str  # the id of its store: two listeners of one name are told apart


class Welcome(_Message, frozen=True, tag=2):
    engine: str
    start: str


class Goodbye(_Message, frozen=True, tag=3):
    """The link ends, and why."""

    reason: str


class Answered(_Message, frozen=True, tag=4):
    part: Part


class State(_Message, frozen=True, tag=5):
    """How far a listener is; said when it changes, and every HEARTBEAT_SECONDS."""

    state: ServerState
    finished: int  # the place up to which everything is finished
    received: int  # the newest place it has heard of
    membership: int  # the number of the membership it knows
    members: bytes = b""  # the membership itself, encoded, when the engine may not know it
    in_doubt: int = 0
    keys: int = 0
    bytes_passed: int = 0  # of the events that it has received, since it was started


class Seen(_Message, frozen=True, tag=6):
    """A session was queued here, durably (C3)."""

    session: str


class Read(_Message, frozen=True, tag=7):
    """A request that is not in the topic: answered if the listener has finished `place` (continuity rule 10), else declined."""

    number: str
    content: Content
    place: int
    membership: int
    is_stream: bool = False  # passed on while it comes, whole or endless, until `Stop`


class Resume(_Message, frozen=True, tag=8):
    """Send the answer of a transaction again, from this byte of its body on."""

    transaction: str
    offset: int


class Roll(_Message, frozen=True, tag=9):
    """Say your `State` now, with the members."""


class Stop(_Message, frozen=True, tag=10):
    """The client of a stream has left: pass it on no more."""

    number: str


class Traced(_Message, frozen=True, tag=20):
    """A request has come with this trace: say whether a transaction of it is under way at your server (continuity rule 13)."""

    number: str
    trace: str


class Running(_Message, frozen=True, tag=21):
    """The answer to `Traced`: the transaction; "" if none is under way."""

    number: str
    transaction: str


class SocketOpen(_Message, frozen=True, tag=11):
    """Open a WebSocket at the server, if the listener has finished `place`; the subprotocols are among the headers."""

    number: str
    content: Content
    place: int


class SocketOpened(_Message, frozen=True, tag=12):
    """The server has accepted it."""

    number: str
    subprotocol: str  # "" for none
    headers: Headers


class SocketRefused(_Message, frozen=True, tag=13):
    """There is no WebSocket. `answered`: the server said no, with this answer; else it may be tried at another server."""

    number: str
    outcome: Outcome
    reason: str
    head: Head | None = None
    body: bytes = b""


class SocketMessage(_Message, frozen=True, tag=14):
    """A whole message of a WebSocket."""

    number: str
    data: bytes
    is_text: bool


class SocketTaken(_Message, frozen=True, tag=15):
    """The other side has taken so much, as `socket_end.size_of` counts: it has room for that again."""

    number: str
    size: int


class SocketClose(_Message, frozen=True, tag=16):
    """The WebSocket ends, and why."""

    number: str
    code: int
    reason: str = ""


SocketFrame = SocketOpened | SocketRefused | SocketMessage | SocketTaken | SocketClose
Message = (
    Hello
    | Welcome
    | Goodbye
    | Answered
    | State
    | Seen
    | Read
    | Resume
    | Roll
    | Stop
    | Traced
    | Running
    | SocketOpen
    | SocketFrame
)
HEARTBEAT_SECONDS = 0.2

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)
_head = Struct(">II")  # length and check sum


def encode(message: Message) -> bytes:
    body = _encoder.encode(message)
    if len(body) > FRAME_MAX:
        raise ProtocolError(f"a frame of {len(body):,} bytes is over the limit of {FRAME_MAX:,}; send the body in parts")
    return _head.pack(len(body), crc32c.crc32c(body)) + body


class Frames:
    """Turns bytes, as they come, into messages. ProtocolError for anything else; nothing after it is read."""

    def __init__(self, frame_max: int = FRAME_MAX) -> None:
        self._buffer = bytearray()
        self._wanted = HEAD_BYTES  # bytes that make the frame in the buffer whole, as far as is known
        self._frame_max = frame_max

    def widen(self) -> None:
        """The peer is known: take frames up to FRAME_MAX from now on."""
        self._frame_max = FRAME_MAX

    def feed(self, data: bytes) -> Iterable[Message]:
        size = len(data) - HEAD_BYTES
        if size > 0 and not self._buffer:
            length, check_sum = _head.unpack_from(data)
            if length == size <= self._frame_max:  # one frame and no more, as most of the time
                return (_message(data[HEAD_BYTES:], check_sum),)
        return self._feed(data)

    def _feed(self, data: bytes) -> Iterator[Message]:
        if self._buffer:  # a frame began in bytes that came before
            self._buffer += data
            if len(self._buffer) < self._wanted:
                return
            data = bytes(self._buffer)
            self._buffer.clear()
        begin, size, self._wanted = 0, len(data), HEAD_BYTES
        while size - begin >= HEAD_BYTES:
            length, check_sum = _head.unpack_from(data, begin)
            if length > self._frame_max:
                raise ProtocolError(f"a frame of {length:,} bytes is over the limit of {self._frame_max:,}")
            end = begin + HEAD_BYTES + length
            if size < end:
                self._wanted = end - begin
                break
            body = data[begin + HEAD_BYTES : end]
            begin = end
            yield _message(body, check_sum)
        if begin < size:
            self._buffer += data[begin:]


def _message(body: bytes, check_sum: int) -> Message:
    if crc32c.crc32c(body) != check_sum:
        raise ProtocolError("the check sum of a frame is wrong")
    try:
        message: Message = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ProtocolError(f"a frame cannot be read: {problem}") from problem
    return message
