"""Receivers and their sessions, as a message manager knows them: who is attached to which queue or subscription.

Only attachment is known here, because confirms depend on it (rule 4): a session that is not attached may not confirm. The events
that a receiver holds are not known here (rule 3).

The verdicts of a receiver are numbered, and said again after a lost link. So it is known here whether one was applied before,
whole or in part, because another recipient had been first with some.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.destination.effect import BacklogKey, Holder

# Newest verdicts of a receiver of which it is known how they were applied: more than a client has unanswered.
VERDICTS_KNOWN = 64
_KNOWN_BITS = (1 << VERDICTS_KNOWN) - 1


class Receivers:
    """The receivers of one queue or subscription, and since which entry of the channel each is attached."""

    def __init__(self) -> None:
        self._since: dict[Holder, int] = {}
        self._by_session: dict[str, int] = {}
        self._selectors: dict[Holder, str] = {}
        self._owners: dict[Holder, None] = {}
        # The number of its newest verdict, and bits for those that were applied in part: bit n for the number that is n less.
        self._verdicts: dict[Holder, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._since)

    def __iter__(self) -> Iterator[tuple[Holder, int]]:
        """Every receiver and the entry at which it attached, in that order."""
        return iter(self._since.items())

    def is_attached(self, session: str) -> bool:
        return session in self._by_session

    def selector_of(self, holder: Holder) -> str:
        """The selector of a receiver; "" for all events."""
        return self._selectors.get(holder, "")

    def selectors(self) -> Iterator[tuple[str, int, str]]:
        """(session, receiver, selector) of the receivers that have one."""
        return ((session, receiver, selector) for (session, receiver), selector in self._selectors.items())

    def select(self, holder: Holder, selector: str) -> None:
        """The receiver wants only events that match."""
        if selector:
            self._selectors[holder] = selector

    def owners(self) -> list[Holder]:
        """The receivers that own what they are attached to."""
        return list(self._owners)

    def own(self, holder: Holder) -> None:
        self._owners[holder] = None

    def was_whole(self, holder: Holder, number: int) -> bool | None:
        """Whether a verdict was applied before, whole or in part; None for a new one."""
        newest, partial = self._verdicts.get(holder, (0, 0))
        if number > newest:
            return None
        return newest - number < VERDICTS_KNOWN and not partial >> newest - number & 1

    def note_verdict(self, holder: Holder, number: int, is_whole: bool) -> None:
        """A new verdict is applied."""
        newest, partial = self._verdicts.get(holder, (0, 0))
        newer = min(number - newest, VERDICTS_KNOWN)
        passed_over = (1 << newer) - 2  # numbers that did not come: not known to be applied
        self._verdicts[holder] = number, (partial << newer | passed_over | (not is_whole)) & _KNOWN_BITS

    def verdicts(self) -> Iterator[tuple[str, int, int, int]]:
        """(session, receiver, newest number, bits) of the receivers that have given verdicts."""
        return ((*holder, *known) for holder, known in self._verdicts.items())

    def restore_verdicts(self, holder: Holder, newest: int, partial: int) -> None:
        self._verdicts[holder] = newest, partial

    def is_there(self, holder: Holder) -> bool:
        return holder in self._since

    def attach(self, holder: Holder, entry: int) -> None:
        if holder not in self._since:
            self._since[holder] = entry
            self._by_session[holder[0]] = self._by_session.get(holder[0], 0) + 1

    def detach(self, holder: Holder) -> None:
        del self._since[holder]
        self._selectors.pop(holder, None)
        self._owners.pop(holder, None)
        self._verdicts.pop(holder, None)
        self._by_session[holder[0]] -= 1
        if not self._by_session[holder[0]]:
            del self._by_session[holder[0]]


# Receivers of a session of which is known how they were attached: the latest ones.
ATTACHED_BY_MAX = 1_024


def user_of(session: str) -> str:
    """The user of a session, or of a stage ("/" and its user stand for its session); "" where there are no users."""
    return session.partition("/")[2]


@dataclass
class Session:
    """A session: what it has open here, and what goes when it goes.

    In a cluster `Introduce` makes it. On a single server its first receiver, non-durable subscription, producer or temporary
    destination does. `Detach` of receiver 0 ends it.
    """

    name: str
    since: int  # the entry that introduced it
    receivers: dict[int, BacklogKey] = field(default_factory=dict)
    subscriptions: list[BacklogKey] = field(default_factory=list)  # non-durable ones
    producers: dict[str, None] = field(default_factory=dict)  # opened by it, in order; those that are durable stay when it goes
    destinations: list[str] = field(default_factory=list)  # temporary ones
    client_manager: str = ""  # the start of the one that introduced it last
    link: int = 0  # the number of its client's link; 0: it was not introduced
    # By which command each receiver was attached, of one that was introduced: its origin, and its token there.
    attached_by: dict[int, tuple[str, int]] = field(default_factory=dict)

    def is_late(self, receiver: int, origin: str, token: int) -> bool:
        """Whether this command to attach a receiver was overtaken by a later one of the same origin."""
        newest = self.attached_by.get(receiver)
        return newest is not None and newest[0] == origin and token < newest[1]

    def note_attached(self, receiver: int, origin: str, token: int) -> None:
        """Remember the command, also after the receiver was left: a late one must not bring it back."""
        self.attached_by.pop(receiver, None)
        self.attached_by[receiver] = origin, token
        if len(self.attached_by) > ATTACHED_BY_MAX:
            del self.attached_by[next(iter(self.attached_by))]
