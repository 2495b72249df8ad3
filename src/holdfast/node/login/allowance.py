"""Allowances: how many temporary destinations and durable producers a user may have, for which no rule is needed
(`NodeSettings`).

Those that there are, as applied, are counted with those on their way: a client that asks for many at once gets no more. Where
there are no users nothing is counted by user; the limits of a session remain.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from holdfast.channel.channel import Pressure
from holdfast.destination.name import is_temporary
from holdfast.errors import Blocked
from holdfast.node.message_manager_view import MessageManagerView, TemporaryDestination
from holdfast.node.settings import NodeSettings
from holdfast.session.session import Session, owner_of
from holdfast.wire import frame

Ended = Callable[[], None]

# While the journal is fuller than this, in percent of the space for events, a temporary destination in which more than
# WAITING_MAX events wait takes no more: nobody needs a rule to fill it.
FULL_PERCENT = 80
WAITING_MAX = 10
# Subscriptions of one temporary topic: every event goes to all of them, at once.
SUBSCRIPTIONS_MAX = 100
# Receivers of one session on temporary destinations: they go together when it ends.
RECEIVERS_MAX = 1_000


class Allowance:
    """How many of one thing each user, or each session, may have."""

    def __init__(self, what: str, limit: int, has: Callable[[str], int]) -> None:
        """`what` names the thing, and what to do when there are too many; `has` says how many somebody has."""
        self._what = what
        self.limit = limit
        self._has = has
        self._begun: dict[str, int] = {}

    def begin(self, whose: str) -> Ended:
        """Count one more as on its way, until the returned function is called. Blocked when there are too many. "" is nobody."""
        begun = self._begun.get(whose, 0)
        if whose and self._has(whose) + begun >= self.limit:
            raise Blocked(f"there are {self.limit:,} {self._what}", limit=self.limit)
        self._begun[whose] = begun + 1
        return partial(self._end, whose)

    def _end(self, whose: str) -> None:
        self._begun[whose] -= 1
        if not self._begun[whose]:
            del self._begun[whose]


class Allowances:
    """The allowances of all users and sessions of one client manager."""

    def __init__(self, settings: NodeSettings, messages: MessageManagerView) -> None:
        self._messages = messages
        self._of_session = Allowance(
            "temporary destinations of this session; delete some, then make another",
            settings.session_temporaries_max,
            messages.temporaries_of_session,
        )
        self._of_user = Allowance(
            "temporary destinations of this user; delete some, or close sessions, then make another",
            settings.user_temporaries_max,
            messages.temporaries_of_user,
        )
        self._producers = Allowance(
            "durable producers of this user; forget those that send no more, then open another",
            settings.user_producers_max,
            messages.durable_producers_of,
        )

    def use(self, settings: NodeSettings) -> None:
        """Count against these limits from now on."""
        self._of_session.limit = settings.session_temporaries_max
        self._of_user.limit = settings.user_temporaries_max
        self._producers.limit = settings.user_producers_max

    def begin_temporary(self, session: str) -> Ended:
        """Count a temporary destination that a session creates."""
        of_session = self._of_session.begin(session)
        try:
            of_user = self._of_user.begin(owner_of(session))
        except Blocked:
            of_session()
            raise

        def ended() -> None:
            of_session()
            of_user()

        return ended

    def begin_producer(self, session: str, asked: frame.OpenProducer) -> Ended:
        """Count a producer that a session opens, unless it goes with its session, or is there already."""
        if not asked.is_durable or self._messages.has_durable_producer(asked.producer):
            return lambda: None
        return self._producers.begin(owner_of(session))


def check_receivers(name: str, destination: TemporaryDestination, session: Session) -> None:
    """Blocked when one more receiver of a temporary destination is too many."""
    if destination.subscriptions >= SUBSCRIPTIONS_MAX:
        raise Blocked(
            f"temporary topic {name!r} has {SUBSCRIPTIONS_MAX} subscriptions; use a topic that stays",
            limit=SUBSCRIPTIONS_MAX,
        )
    if sum(is_temporary(place.destination) for place in session.receivers.values()) >= RECEIVERS_MAX:
        raise Blocked(
            f"this session has {RECEIVERS_MAX:,} receivers on temporary destinations; close some, then open another",
            limit=RECEIVERS_MAX,
        )


def check_room(messages: MessageManagerView, name: str, pressure: Pressure) -> None:
    """Blocked when the journal is too full for more to wait in the temporary destination of this name."""
    if 100 * pressure.used_bytes <= FULL_PERCENT * pressure.ordinary_bytes:
        return
    waiting = messages.waiting_in(name)
    if waiting > WAITING_MAX:
        raise Blocked(
            f"the journal is over {FULL_PERCENT} % full, and {waiting:,} events wait in temporary {messages.kind_of(name)} "
            f"{name!r}; send there again when they are received",
            destination=name,
        )
