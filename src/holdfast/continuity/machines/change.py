"""Changes of a membership, as they stand in the topic, and the effects that a change has.

kind            says                  of whom        what
join            a listener            itself         it is there; a site, a role
current         a listener            itself         it has caught up
behind          a listener            itself         it has not, or has lost its store
leave           a listener            itself         it goes for good
remove          an engine, a listener a server       it lags too far, or is not wanted
drain           a person              a server       it is to end: it answers no more
rebuild         a person, a listener  a server       it goes back to a snapshot
disagreement    an engine             a transaction  the servers' answers, which differ
engine          an engine             itself         start id and addresses; without a start id it goes
skip            a listener            a transaction  its server died of it twice (continuity rule 14)
snapshot        a listener            itself         the place of the oldest snapshot that it keeps
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

Kind = Literal["join", "current", "behind", "leave", "remove", "drain", "rebuild", "disagreement", "engine", "skip", "snapshot"]
Role = Literal["server", "shadow"]
State = Literal["joining", "current", "behind", "rebuilding", "drained", "removed"]


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of the membership: the data of its event, as JSON."""

    kind: Kind
    server: str = ""
    site: str = ""
    role: Role = "server"
    # With a change of a state: the `since_place` of the state that it follows. One that followed another state is out of date and
    # is refused: said before a rebuild, heard after it. None is not checked.
    since: int | None = None
    reason: str = ""
    transaction: str = ""
    answers: dict[str, str] = {}  # with `disagreement`: server, and the digest of what is compared, in hexadecimal
    engine: str = ""
    start: str = ""
    address: str = ""
    reply_to: str = ""
    tls: bool = False  # with `engine`: its answer link is TLS
    local: str = ""  # with `engine`: the name of its local socket
    oldest: int = 0  # with `snapshot` and `join`: the place of the oldest snapshot; 0 for none


class Moved(NamedTuple):
    """A member has another state, or is gone. The subscription of one that is removed or gone goes afterwards."""

    server: str
    state: State | Literal["gone"]
    reason: str = ""


class Named(NamedTuple):
    """Answers differ. `wrong`: these are against a majority. `differ`: these differ, and nobody can tell which is right."""

    kind: Literal["wrong", "differ"]
    servers: tuple[str, ...]
    transaction: str


class Skipped(NamedTuple):
    """All current servers died of a request: it is answered with 500, and passed over."""

    transaction: str


class Registered(NamedTuple):
    """An engine has come, was started again, or is gone."""

    engine: str


class Refused(NamedTuple):
    """A change that changed nothing, and why."""

    kind: Kind
    who: str
    reason: str


Effect = Moved | Named | Skipped | Registered | Refused

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Change)


def encode(change: Change) -> bytes:
    return _encoder.encode(change)


def decode(data: bytes) -> Change:
    """The change in the data of an event; ValueError for one that is none."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ValueError(f"this is no change of a membership: {problem}") from problem
