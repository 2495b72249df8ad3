"""Effects: what applying a command asks the outside to do. Only a primary acts on them; a backup throws them away.

A backlog is named by (destination, subscription); the subscription is "" for a queue. `Backlog` keys below are such pairs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.errors import HoldfastError
from holdfast.event.position import Ranges

BacklogKey = tuple[str, str]


class Placed(NamedTuple):
    """A batch is waiting in a backlog: positions first .. first + events - 1.

    A command that places many batches at once (a deletion, in the dead queue) says so for the first of them only: whoever
    delivers walks the backlog.
    """

    backlog: BacklogKey
    first: int
    events: int


class Finished(NamedTuple):
    """These positions of a backlog are finished (or dead): nobody holds them any more."""

    backlog: BacklogKey
    ranges: Ranges


class Returned(NamedTuple):
    """These positions of a backlog wait again, not before a time (0: at once).

    `session` is whose release it was; "" when nobody can hold them. A release may be said twice, and then what another session
    holds by now stays with it.
    """

    backlog: BacklogKey
    ranges: Ranges
    not_before_ms: int
    session: str = ""


class Attached(NamedTuple):
    session: str
    receiver: int
    backlog: BacklogKey
    selector: str = ""


class DetachedReceiver(NamedTuple):
    """A receiver is gone, by its own wish, by its session's end, or because its backlog is (then `reason` says why)."""

    session: str
    receiver: int
    backlog: BacklogKey
    reason: str


class BacklogCreated(NamedTuple):
    backlog: BacklogKey


class BacklogDeleted(NamedTuple):
    backlog: BacklogKey


class Configured(NamedTuple):
    """The settings of a destination changed."""

    name: str


class Claimed(NamedTuple):
    """`node` is primary from here on."""

    epoch: int
    node: str


class Answer(NamedTuple):
    """The answer to whoever waits: a value that msgpack can hold, or the refusal."""

    origin: str
    token: int
    value: Any
    error: HoldfastError | None


Effect = (
    Placed | Finished | Returned | Attached | DetachedReceiver | BacklogCreated | BacklogDeleted | Configured | Claimed | Answer
)
