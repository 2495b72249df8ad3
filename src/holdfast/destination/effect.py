"""Effects: what the outside must do after a command was applied. Only a primary acts on them; a backup throws them away.

A backlog is named by its key: (destination, subscription), with "" as the subscription of a queue.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.errors import HoldfastError
from holdfast.event.position import Ranges

BacklogKey = tuple[str, str]  # the destination, or a pattern, and the subscription; "" for a queue
Holder = tuple[str, int]  # a session, and the number of a receiver in it


class Placed(NamedTuple):
    """A batch is waiting in a backlog: positions first .. first + events - 1.

    A command that places many batches at once (a deletion, in the dead queue; a subscription made like another) has this effect
    for the first of them only: delivery walks the backlog.
    """

    backlog: BacklogKey
    first: int
    events: int


class Finished(NamedTuple):
    """These positions of a backlog are finished (or dead): nobody holds them any more."""

    backlog: BacklogKey
    ranges: Ranges


class Died(NamedTuple):
    """So many events of a backlog were given up, and wait in the dead queue. The backlog may not exist: they were sent to it."""

    backlog: BacklogKey
    events: int
    code: str


class Returned(NamedTuple):
    """These positions of a backlog wait again, not before a time (0: at once).

    `session` released them; "" when nobody can hold them. A release may be said twice: events that another session holds by
    then stay with it.
    """

    backlog: BacklogKey
    ranges: Ranges
    not_before_ms: int
    session: str = ""


class ReturnedOften(NamedTuple):
    """So many events of a backlog have now been released more than 20 times: perhaps nobody can ever finish them."""

    backlog: BacklogKey
    events: int


class Attached(NamedTuple):
    session: str
    receiver: int
    backlog: BacklogKey
    selector: str = ""


class DetachedReceiver(NamedTuple):
    """A receiver is gone: it was closed, its session ended, or its backlog is gone (then `reason` says why)."""

    session: str
    receiver: int
    backlog: BacklogKey
    reason: str
    code: str = "detached"  # of the error that its program gets


class BacklogCreated(NamedTuple):
    backlog: BacklogKey


class BacklogDeleted(NamedTuple):
    backlog: BacklogKey


class SubscriptionRemoved(NamedTuple):
    """A subscription was removed with so many events that waited in it, because it had passed a limit of its terms."""

    backlog: BacklogKey
    events: int
    reason: str


class Purged(NamedTuple):
    """So many events that waited in a backlog were thrown away by an administrator."""

    backlog: BacklogKey
    events: int


class Resembling(NamedTuple):
    """A queue came into being on first use, although its name is like that of topics in use: perhaps a topic was meant."""

    queue: str
    like: str  # the pattern of a subscription that matches its name, or a topic beside it


class Configured(NamedTuple):
    """The settings of a destination changed."""

    name: str


class WindowShortened(NamedTuple):
    """A destination deduplicates for less time than it is set to: too many events come to remember all of them."""

    destination: str
    to_ms: int
    window_ms: int


class Locked(NamedTuple):
    """A prepared transaction decides on these positions of a backlog: nobody is handed them before its Final."""

    backlog: BacklogKey
    ranges: Ranges


class Unlocked(NamedTuple):
    """A transaction was aborted: these positions of a backlog wait as before."""

    backlog: BacklogKey
    ranges: Ranges


class Checked(NamedTuple):
    """The digest of the state at an entry. Every member says it, a backup too."""

    entry: int
    digest: str


class Claimed(NamedTuple):
    """`node` is primary from here on: the process with this start, as far as it was said."""

    epoch: int
    node: str
    start: str = ""


class Answer(NamedTuple):
    """The answer to a command: a value that msgpack can hold, or the refusal."""

    origin: str
    token: int
    value: Any
    error: HoldfastError | None


Effect = (
    Placed
    | Finished
    | Died
    | Returned
    | ReturnedOften
    | Attached
    | DetachedReceiver
    | BacklogCreated
    | BacklogDeleted
    | SubscriptionRemoved
    | Purged
    | Resembling
    | Configured
    | WindowShortened
    | Locked
    | Unlocked
    | Checked
    | Claimed
    | Answer
)
