"""What the machines of the links ask their shell to do, in order."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.bus.link.frame import Frame
from holdfast.bus.link.outgoing import Piece


class Send(NamedTuple):
    """Publish a frame: on the subject of its client manager when it is `to_client`, otherwise on that of its message manager."""

    frame: Frame


class Arrived(NamedTuple):
    """The next piece of what the peer has published on the link."""

    peer: str  # the start of the client manager, or the name of the message manager
    piece: Piece


class Made(NamedTuple):
    """A new link with the peer begins. Nothing of a former one comes any more, and what was sent on it may be lost."""

    peer: str
    epoch: int


class Lost(NamedTuple):
    """There is no link with the peer now: what is published to it goes nowhere until the next one is made."""

    peer: str
    why: str


class Congested(NamedTuple):
    """What is published to the peer waits for room, or does so no more."""

    peer: str
    is_congested: bool


class Deposed(NamedTuple):
    """A client manager knows of a newer primary."""

    epoch: int


Effect = Send | Arrived | Made | Lost | Congested | Deposed
