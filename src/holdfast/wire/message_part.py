"""Parts of messages: what a frame says of several things at once, each in one of these.

Deliver    a Slice for each run of events; a Death for each time one of them died
Commit     a SettledPart for each receiver
CommitAll  a Participant for each message manager

Beside them what every message is, and the two by which a server has its clients go on elsewhere.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec


class Message(msgspec.Struct, array_like=True, frozen=True):
    """The head of a frame. New fields go last, with a default."""

    KIND: ClassVar[int] = 0


class SessionSuspended(Message, frozen=True):
    """The message manager of this session has another primary, which does not know what the session holds: resume it, under a new
    number. What was said to it and is not answered may have been done."""

    KIND = 32


class Leave(Message, frozen=True):
    """Link to another host: ask nothing more here, wait for what was asked, then end this link. A wish is passed over by a client
    that knows no other host."""

    KIND = 36
    is_wish: bool = False


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

    `is_adjoining`: one range may span this slice and the one before (also of the frame before). This receiver has got every
    position of this backlog that lies between them."""

    first: int  # position
    events: int
    deliveries: int  # how often it had been delivered before: 0 the first time
    is_adjoining: bool
    length: int
    destination: str = ""  # where it was sent, when that is not where the receiver is attached
    deaths: tuple[Death, ...] = ()  # in the dead queue: why these events are there, oldest first
    accepted_us: int = 0  # when it was accepted, microseconds since 1970; 0: not known
    is_returned: bool = False  # it came back before, although that did not count as a delivery


class SettledPart(msgspec.Struct, array_like=True, frozen=True):
    """Positions that a transaction confirms, of one receiver."""

    receiver: int
    ranges: bytes
    delivered_up_to: int = 0
    handed: int = 0  # as in Credit


class Participant(msgspec.Struct, array_like=True, frozen=True):
    """What a transaction over several message managers commits at one of them: as in Commit, of a session in its channel."""

    channel: str
    session: str
    assembly: str
    parts: int
    settled: list[SettledPart] = []
