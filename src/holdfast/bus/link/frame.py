"""The frames of a link on the bus, as they travel: a version byte, then a msgpack array (ADR 24).

┌─────────┬─────────────────────────────────────────────────────────────────────────────────────────────┬──────┐
│ version │ kind  to_client  manager  epoch  start  round  number │ sequence  newest  received  granted   │ body │
│  1 byte │                    which link                         │ missing  asks  is_part: its progress   │      │
└─────────┴─────────────────────────────────────────────────────────────────────────────────────────────┴──────┘

OPEN     client manager: begin a link; `round` counts my attempts
OPENED   primary: this round has got the link of this `number`
BODY     either: a piece of what was published
STATUS   either: how far I have received, and what is missing; `asks` for the same in return
RESET    primary: I do not have the link of this number, or my epoch is another one
"""

from __future__ import annotations

import msgspec

VERSION = 1
OPEN, OPENED, BODY, STATUS, RESET = range(1, 6)

# A longer message travels in pieces: two of them fit the least grant, and each fits the default `max_payload` of NATS.
BODY_BYTES_MAX = 128 << 10
# What a frame costs beside its body, on the wire and in memory.
FRAME_BYTES = 256
# Ranges that one frame names as missing. The others are named when these have come.
MISSING_RANGES_MAX = 16


class BadFrame(ValueError):
    """Another version of Holdfast, or another program, publishes on the subjects of this cluster."""


class Frame(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kind: int
    to_client: bool  # from the primary to the client manager
    manager: str
    epoch: int  # of the primary; 0 in an OPEN of a client manager that has not heard of one
    start: str  # of the client manager: another one each time it starts
    round: int  # which attempt of the client manager to begin a link
    number: int  # of the link, given by the primary, another one for each link of its epoch; 0: none yet
    sequence: int = 0  # of a BODY, from 1 on
    newest: int = 0  # the newest sequence that was sent this way
    received: int = 0  # everything up to this sequence has come the other way
    granted: int = 0  # so many bytes may be unacknowledged the other way
    missing: tuple[tuple[int, int], ...] = ()  # sequences after `received` that have not come, as ranges
    asks: bool = False
    is_part: bool = False  # the next BODY continues it
    body: bytes = b""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Frame)


def encode(frame: Frame) -> bytes:
    return bytes((VERSION,)) + _encoder.encode(frame)


def decode(data: bytes) -> Frame:
    if not data or data[0] != VERSION:
        raise BadFrame(f"a frame on the bus has version {data[0] if data else None}, and this node reads {VERSION}; upgrade it")
    try:
        return _decoder.decode(memoryview(data)[1:])
    except msgspec.MsgspecError as problem:
        raise BadFrame(f"a frame on the bus cannot be read: {problem}; use a cluster name that nobody else uses") from problem
