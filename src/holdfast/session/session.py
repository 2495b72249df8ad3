"""A session as its client manager sees it: a client's conversation, which outlives the links it runs over.

    present ── link lost ──▶ away ── resumed in time ──▶ present
                              └──── grace over ────────▶ gone (detach becomes a command)

It knows its receivers and producers, refuses what does not belong to it, and bounds what a client can have outstanding. It
holds no event: what is in flight is known to `delivery`, what is unreceipted to the client. Pure: the caller brings the time.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from holdfast.errors import Detached, ProtocolError

# Questions one session may have unanswered; beside them, verdicts of each of its receivers.
QUESTIONS_MAX = 4_096
VERDICTS_MAX = 32
# Parts of assemblies one session may have unreceipted: at most so many MiB wait for the disk.
PARTS_MAX = 32
RECEIVERS_MAX = 10_000
PRODUCERS_MAX = 1_000
PRODUCER_LENGTH_MAX = 255


class ReceiverPlace(NamedTuple):
    """Where a receiver takes its events from; the subscription is "" for a queue."""

    destination: str
    subscription: str


class Rights(Protocol):
    """What the user of a session may do; the rules themselves are in `access`."""

    user: str

    def may(self, action: str, destination: str) -> bool: ...

    def may_see(self, destination: str) -> bool: ...

    def may_pattern(self, action: str, pattern: Any) -> bool: ...


def owned(id: str, user: str) -> str:
    """The id with its owner in it, so that whoever remembers the id, also across a restart, remembers the owner."""
    return f"{id}/{user}" if user else id


# How the id of a session begins that ends with its link: so it is known for one after a restart, too.
_PASSING = "once-"


def passing(id: str) -> str:
    """The id of a session that is not resumed."""
    return _PASSING + id


def is_passing(id: str) -> bool:
    return id.startswith(_PASSING)


def owner_of(id: str) -> str:
    return id.partition("/")[2]


def stages_of(id: str) -> str:
    """What stands where a session is named, for what belongs to none but to the user of this one: stages."""
    return f"/{owner_of(id)}"


class Session:
    def __init__(self, id: str, name: str, window: int) -> None:
        self.id = id
        self.name = name
        self.rights: Rights | None = None  # everyone may do everything
        self.denials: set[tuple[str, str]] = set()  # (action, destination) that were written to the log
        self.receivers: dict[int, ReceiverPlace] = {}
        self.producers: dict[str, bool] = {}
        self.client = ""  # made by the client once, the same for all its sessions: whose events "not my own" means
        self.is_introduced = False  # destinations were told of it
        self.is_closing = False  # its end is on the way: nothing more is opened in it
        self.away_since_ms: int | None = None
        self._window = window
        self.unreceipted = 0
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

    def receiver(self, number: int) -> ReceiverPlace:
        place = self.receivers.get(number)
        if place is None:  # never attached, or closed by the server while this was on its way
            raise Detached(f"receiver {number} of session {self.id} is not attached; attach it first, discard what it held")
        return place

    def open_producer(self, producer: str, is_durable: bool) -> None:
        if len(producer) > PRODUCER_LENGTH_MAX or len(self.producers) >= PRODUCERS_MAX:
            raise ProtocolError(
                f"a session opens at most {PRODUCERS_MAX} producers, named with at most {PRODUCER_LENGTH_MAX} characters; "
                "forget those that send no more"
            )
        self.producers[producer] = is_durable

    def check_producer(self, producer: str) -> None:
        if producer not in self.producers:
            raise ProtocolError(f"producer {producer!r} was not opened in session {self.id}; open it first", producer=producer)

    def sent(self) -> None:
        """A batch came in; at most the window may be unreceipted."""
        if self.unreceipted >= self._window:
            raise ProtocolError(f"session {self.id} has {self._window} batches unreceipted and sends another; wait for receipts")
        self.unreceipted += 1

    def receipted(self) -> None:
        self.unreceipted -= 1

    def part_sent(self) -> None:
        """A part of an assembly came in; they have a window of their own, so that producers are not held up by them."""
        if self._parts >= PARTS_MAX:
            raise ProtocolError(f"session {self.id} has {PARTS_MAX} parts unreceipted and sends another; wait for receipts")
        self._parts += 1

    def part_receipted(self) -> None:
        self._parts -= 1

    def asked(self) -> None:
        if self._unanswered >= QUESTIONS_MAX + VERDICTS_MAX * len(self.receivers):
            raise ProtocolError(
                f"session {self.id} has {self._unanswered} questions unanswered and asks another; wait for answers"
            )
        self._unanswered += 1

    def answered(self) -> None:
        self._unanswered -= 1

    def went_away(self, now_ms: int) -> None:
        """Its link is lost."""
        self.away_since_ms = now_ms

    def came_back(self) -> None:
        """It is on a new link. What was outstanding on the old one is answered to nobody, and does not count here."""
        self.away_since_ms = None
        self.unreceipted = 0
        self._parts = 0
        self._unanswered = 0

    def is_overdue(self, now_ms: int, grace_ms: int) -> bool:
        return self.away_since_ms is not None and now_ms - self.away_since_ms >= grace_ms
