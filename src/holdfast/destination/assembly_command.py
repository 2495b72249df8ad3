"""Commands of assemblies: parts, and what makes them visible: a commit, a publication, or two-phase commit (ADR 25).

`command` has the others, and how all look.
"""

from __future__ import annotations

import msgspec

from holdfast.destination.administration_command import Command


class Part(Command, frozen=True):
    """A part of an assembly (rule 10), which is bigger than one command. Invisible until a `Commit` names the assembly.

    With a destination, the payload is a batch for it, as in a `BatchCommand`. Without, it is a fragment of a large event's body.
    The batch of a large event has that one event, with an empty body; `fragments` are the numbers (first, last) of the parts
    that are its body, `fragment_bytes` long each but the last. Numbers count from 1; a part that comes twice counts once."""

    KIND = 16
    session: str
    assembly: str
    number: int
    destination: str = ""
    fragments: tuple[int, int] = (0, 0)
    fragment_bytes: int = 0
    large_bytes: int = 0
    accepted_us: int = 0  # of a part with a batch, as in a `BatchCommand`
    is_replay: bool = False  # dead events that are sent again on purpose: not deduplicated


class Settled(msgspec.Struct, array_like=True, frozen=True):
    """The positions of one backlog that a commit confirms."""

    destination: str
    subscription: str
    ranges: bytes
    delivered_up_to: int = 0


class Commit(Command, frozen=True):
    """Place parts 1 .. `parts` of an assembly in the order of their numbers and confirm what is listed: all, or nothing (B11).

    Refused as a whole with TransactionAborted when a part is missing, a destination is gone, or something to be confirmed is
    finished already. Said again by its session, it is answered as it was the first time."""

    KIND = 17
    session: str
    assembly: str
    parts: int
    settled: list[Settled] = msgspec.field(default_factory=list)
    client: str = ""
    origin: str = ""
    token: int = 0
    at_ms: int = 0


class Abandon(Command, frozen=True):
    """An assembly will not be committed: its parts are let go. It need not exist. The payload may name more, if they are
    stages."""

    KIND = 18
    session: str
    assembly: str
    epoch: int = 0
    origin: str = ""
    token: int = 0


class Publish(Command, frozen=True):
    """Place all parts of all these stages, in this order, unless the scope has published this number or a higher one.

    A stage is an assembly without a session: `session`, in its parts and here, is "/" and its user. The payload is the stages, a
    msgpack array of [name, parts].
    """

    KIND = 20
    session: str
    scope: str
    number: int
    client: str = ""
    origin: str = ""
    token: int = 0
    at_ms: int = 0


class Prepare(Command, frozen=True):
    """Check what a `Commit` checks, and lock it: from now on only a `Final` decides it here. Several managers take part.

    `participants` are names of message managers, ascending; `here` is the one whose channel this is. With a session of stages
    ("/" and its user) it prepares what a `Publish` does: `scope`, `number`, and the stages in the payload."""

    KIND = 28
    session: str
    assembly: str
    parts: int
    participants: list[str]
    here: str
    settled: list[Settled] = msgspec.field(default_factory=list)
    client: str = ""
    origin: str = ""
    token: int = 0
    scope: str = ""
    number: int = 0
    at_ms: int = 0  # when it was said, for those who look at transactions in doubt
    keys: list[tuple[str, str]] = msgspec.field(default_factory=list)  # session, assembly at each participant; none: as here


class Decision(Command, frozen=True):
    """Commit or abort, in the channel of the first participant. The first decision in order counts; a commit only if prepared."""

    KIND = 29
    session: str
    assembly: str
    participants: list[str]
    is_commit: bool
    reason: str = ""  # of an abort
    origin: str = ""
    token: int = 0
    at_ms: int = 0
    keys: list[tuple[str, str]] = msgspec.field(default_factory=list)  # as in Prepare


class Final(Command, frozen=True):
    """Carry the decision out: place the parts and confirm what is locked, or let all go."""

    KIND = 30
    session: str
    assembly: str
    participants: list[str]
    here: str
    is_commit: bool
    reason: str = ""
    origin: str = ""
    token: int = 0
    at_ms: int = 0


class Complete(Command, frozen=True):
    """Every participant has applied its `Final`: the transaction is not in doubt any more. In the first participant's channel."""

    KIND = 31
    session: str
    assembly: str
    origin: str = ""
    token: int = 0
