"""A session as its client manager sees it: the conversation of a client, which outlives the links it runs over.

    present ── link lost ──▶ away ── resumed in time ──▶ present
                              └──── grace over ────────▶ gone (detach becomes a command)

It knows its receivers and producers, refuses requests for others, and bounds how much a client can have outstanding. It holds no
event: `delivery` knows those in flight, the client those without a receipt. Pure: the caller brings the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from holdfast.errors import Detached, HoldfastError, ProtocolError

# Questions one session may have unanswered; beside them, verdicts of each of its receivers.
QUESTIONS_MAX = 4_096
VERDICTS_MAX = 32
# Parts of assemblies one session may have unreceipted: at most so many MiB wait for the disk.
PARTS_MAX = 32
# Assemblies that one session is known to have begun: more than it may have under way.
ASSEMBLIES_MAX = 64
RECEIVERS_MAX = 10_000
PRODUCERS_MAX = 1_000
PRODUCER_LENGTH_MAX = 255
# Clients that are remembered to be replaced: a process that is replaced comes back soon, or never.
REPLACED_MAX = 8
# The name that a client gives to a session, for people.
NAME_LENGTH_MAX = 255


class ReceiverPlace(NamedTuple):
    """Where a receiver takes its events from; the subscription is "" for a queue."""

    destination: str
    subscription: str


class Rights(Protocol):
    """The rights of the user of a session; the rules themselves are in `access`."""

    user: str

    def may(self, action: str, destination: str) -> bool: ...

    def may_see(self, destination: str) -> bool: ...

    def may_pattern(self, action: str, pattern: Any) -> bool: ...


def owned(id: str, user: str) -> str:
    """Return the id with its owner in it, so that everyone who keeps the id keeps the owner, also across a restart."""
    return f"{id}/{user}" if user else id


# The id of a session that ends with its link begins so: it is recognised after a restart, too.
_PASSING = "once-"


def passing(id: str) -> str:
    """Return the id of a session that is never resumed."""
    return _PASSING + id


def is_passing(id: str) -> bool:
    return id.startswith(_PASSING)


def owner_of(id: str) -> str:
    return id.partition("/")[2]


def stages_of(id: str) -> str:
    """Return the name used in place of a session for stages: they belong to the user of this session, not to it."""
    return f"/{owner_of(id)}"


class Session:
    def __init__(self, id: str, name: str, window: int, channel: str = "") -> None:
        """`channel`: that of the message manager that it belongs to; "" where there is one alone."""
        self.id = id
        self.channel = channel
        self.name = name[:NAME_LENGTH_MAX]
        self.rights: Rights | None = None  # everyone may do everything
        self.on_denied: Callable[[str, str, str], None] = lambda user, action, destination: None
        self.receivers: dict[int, ReceiverPlace] = {}
        self.gone_while_away: dict[int, HoldfastError] = {}  # receivers that were detached while it had no link, and why
        self.producers: dict[str, bool] = {}  # whether it is open: before its opening is answered, it may be another user's
        self.client = ""  # made by the client once, the same for all its sessions: "not my own" events are those of others
        self._replaced: deque[str] = deque(maxlen=REPLACED_MAX)  # clients in whose place another has come
        self.is_introduced = False  # destinations were told of it
        self.is_closing = False  # nothing more is opened in it
        self.away_since_ms: int | None = None
        self.link = 0  # the number of its client's link, in a cluster: what is said by a lower one counts for nothing
        self._window = window
        self.unreceipted = 0
        self.assemblies: dict[str, None] = {}  # the newest that have begun
        self._parts = 0
        self._unanswered = 0

    def open_receiver(self, number: int, place: ReceiverPlace) -> None:
        known = self.receivers.get(number)
        if known is not None and known != place:
            raise ProtocolError(
                f"receiver {number} of session {self.id} is open on {known.destination!r}; close it or use another number",
                receiver=number,
            )
        if number < 1 or len(self.receivers) >= RECEIVERS_MAX:
            raise ProtocolError(f"receivers are numbered from 1, at most {RECEIVERS_MAX} in a session", receiver=number)
        self.receivers[number] = place

    def close_receiver(self, number: int, reason: HoldfastError) -> None:
        """The receiver was detached. A session without a link hears why when it attaches the receiver again."""
        if self.receivers.pop(number, None) is not None and self.away_since_ms is not None:
            self.gone_while_away[number] = reason

    def check_reattached(self, number: int) -> None:
        """Raise why the receiver that attaches was detached, if that was while the session had no link."""
        if (reason := self.gone_while_away.pop(number, None)) is not None:
            raise reason

    def receiver(self, number: int) -> ReceiverPlace:
        place = self.receivers.get(number)
        if place is None:  # never attached, or closed by the server while this request was on its way
            raise Detached(f"receiver {number} of session {self.id} is not attached; discard its events and attach it first")
        return place

    def open_producer(self, producer: str, is_open: bool) -> None:
        """Open a producer, or keep a place for it until it `is_open`."""
        is_new = producer not in self.producers
        if len(producer) > PRODUCER_LENGTH_MAX or (is_new and len(self.producers) >= PRODUCERS_MAX):
            raise ProtocolError(
                f"a session opens at most {PRODUCERS_MAX} producers, named with at most {PRODUCER_LENGTH_MAX} characters; "
                "forget those that no longer send"
            )
        self.producers[producer] = is_open or self.producers.get(producer, False)

    def drop_unopened(self, producer: str) -> None:
        """Drop a producer whose opening was refused."""
        if not self.producers.get(producer):
            self.producers.pop(producer, None)

    def check_producer(self, producer: str) -> None:
        if not self.producers.get(producer):
            raise ProtocolError(f"producer {producer!r} was not opened in session {self.id}; open it first", producer=producer)

    def sent(self) -> None:
        """Count a batch that came in; at most the window may be unreceipted."""
        if self.unreceipted >= self._window:
            raise ProtocolError(f"session {self.id} sends a batch while {self._window} are unreceipted; wait for receipts")
        self.unreceipted += 1

    def receipted(self) -> None:
        self.unreceipted -= 1

    def part_sent(self) -> None:
        """Count a part that came in. Parts have a window of their own, so that they do not hold up producers."""
        if self._parts >= PARTS_MAX:
            raise ProtocolError(f"session {self.id} sends a part while {PARTS_MAX} are unreceipted; wait for receipts")
        self._parts += 1

    def begin_assembly(self, name: str) -> None:
        """Note that a part of this assembly was taken."""
        self.assemblies[name] = None
        if len(self.assemblies) > ASSEMBLIES_MAX:
            del self.assemblies[next(iter(self.assemblies))]

    def part_receipted(self) -> None:
        self._parts -= 1

    def asked(self) -> None:
        if self._unanswered >= QUESTIONS_MAX + VERDICTS_MAX * len(self.receivers):
            raise ProtocolError(f"session {self.id} asks a question while {self._unanswered} are unanswered; wait for answers")
        self._unanswered += 1

    def answered(self) -> None:
        self._unanswered -= 1

    def went_away(self, now_ms: int) -> None:
        """Note that its link is lost. The time is that of a steady clock, here and in `is_overdue`."""
        self.away_since_ms = now_ms

    def go_on_for(self, client: str) -> None:
        """Note whose it is now. A client in whose place another came does not get it back: they would take it from each other."""
        if self.client and client and client != self.client:
            self._replaced.append(self.client)
        self.client = client

    def is_lost_to(self, client: str) -> bool:
        """Whether another has come in the place of this client."""
        return client != self.client and client in self._replaced

    def came_back(self) -> None:
        """Note that it is on a new link. Requests of the old link are answered to nobody, and do not count here."""
        self.away_since_ms = None
        self.unreceipted = 0
        self._parts = 0
        self._unanswered = 0

    def is_overdue(self, now_ms: int, grace_ms: int) -> bool:
        return self.away_since_ms is not None and now_ms - self.away_since_ms >= grace_ms
