"""Commands of a cluster: sessions that move, client managers that are gone, and a check of replicas (ADR 25).

`command` has the others, and how all look.
"""

from __future__ import annotations

from holdfast.destination.administration_command import Command


class Introduce(Command, frozen=True):
    """A session uses this message manager, through a client manager. `link` counts the links of its client, from 1.

    A session that came by another link moves. `is_resuming`: the session must be known here, otherwise it is refused."""

    KIND = 27
    session: str
    client_manager: str  # the start of its process
    link: int
    is_resuming: bool = False
    origin: str = ""
    token: int = 0


class Revoke(Command, frozen=True):
    """The primary: this client manager is silent. Its receivers are detached, and what they held is delivered to others."""

    KIND = 32
    epoch: int
    client_manager: str


class Check(Command, frozen=True):
    """Every member of this message manager says the digest of its state at this entry."""

    KIND = 33
    origin: str = ""
    token: int = 0
