"""A subscription: a topic's memory of one recipient. It is a queue that a topic fills, or all topics that match a pattern.

                   who receives                       it goes
    own            its session, unnamed               with its session
    durable        one receiver at a time             when it is unsubscribed; it remembers while nobody receives
    shared         any number, each event to one      with its last receiver
    shared durable any number, each event to one      when it is unsubscribed

Events that wait in a subscription that ends are not dead: its recipient wants no more.

    selector       it takes only events for which the condition is TRUE; the others are not meant for it
    no_local       it takes no events of its own client
    limits         past one of them it is removed, instead of holding producers back (see `removal`)
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from holdfast.destination.backlog.bodies import Bodies
from holdfast.destination.effect import BacklogKey, Holder
from holdfast.destination.name import check_letters
from holdfast.destination.removal import NO_LIMITS, Limits
from holdfast.destination.settings import Settings
from holdfast.destination.state.queue import Queue
from holdfast.destination.state.receivers import user_of
from holdfast.errors import BadPattern, SubscriptionInUse
from holdfast.event.pattern import Pattern
from holdfast.event.selector.selector import Selector, stored_selector

Match = Literal["name", "glob", "regex"]


class Terms(NamedTuple):
    """The terms on which a recipient subscribed."""

    owner: str = ""  # the session that an own subscription belongs to
    is_durable: bool = True
    is_shared: bool = False
    selector: str = ""
    no_local: bool = False
    client: str = ""  # with no_local: the client whose events it does not take
    limits: Limits = NO_LIMITS

    @property
    def kind(self) -> str:
        """Their kind, in sentences."""
        if self.owner:
            return f"belongs to session '{self.owner}'"
        durability = "durable" if self.is_durable else "non-durable"
        return f"is shared and {durability}" if self.is_shared else f"is {durability} and not shared"

    @property
    def choice(self) -> tuple[str, bool]:
        """The terms that say which events it takes."""
        return self.selector, self.no_local


class Subscription(Queue):
    kind = "subscription"

    def __init__(self, topic: str, name: str, settings: Settings, bodies: Bodies, terms: Terms | None = None) -> None:
        self.terms = terms or Terms()
        super().__init__(name, settings, bodies)
        self.topic = topic
        self.owner = self.terms.owner
        self.made_at = 0  # the entry that made it: a subscription made again is another one
        self.confirmed_up_to = 0  # a place: everything before it was confirmed at once (see `places`)
        self.selector: Selector | None = stored_selector(self.terms.selector)

    @property
    def key(self) -> BacklogKey:
        return (self.topic, self.name)

    @property
    def title(self) -> str:
        return f"subscription '{self.name}' of topic '{self.topic}'"

    @property
    def is_durable(self) -> bool:
        return self.terms.is_durable

    @property
    def is_filtered(self) -> bool:
        """Whether it does not take everything."""
        return self.selector is not None or self.terms.no_local

    @property
    def goes_with_its_last_receiver(self) -> bool:
        return not self.terms.is_durable and not self.owner

    @property
    def counts_bytes(self) -> bool:
        return bool(self.settings.bytes_max or self.terms.limits.bytes)

    def limit_passed(self, oldest: int = 0) -> str:
        """Which of its limits is passed, in a sentence; "" for none. `oldest` is the entry of an event that has waited too long,
        if it still waits."""
        limits = self.terms.limits
        if not limits.is_any or not self.is_used:
            return ""
        size = self.backlog.sizes.total if self.backlog.sizes is not None else 0
        return limits.passed(self.backlog.waiting, size, bool(oldest) and self.backlog.needs(oldest))

    @property
    def is_for_one(self) -> bool:
        """At most one receiver at a time."""
        return not self.terms.is_shared

    def taken_over_by(self, session: str) -> list[Holder]:
        """The receivers that go when one of this session takes over: those of other sessions of its user. SubscriptionInUse where
        it may not.

        A receiver of the same session stays: verdicts are checked by session, so one that was detached could still give them.
        """
        if not self.is_for_one or not self.is_durable:
            raise SubscriptionInUse(
                f"{self.title} {self.terms.kind}; only a durable one for one receiver is taken over: leave take_over out",
                subscription=self.name,
            )
        if self.receivers.owners():
            raise SubscriptionInUse(
                f"{self.title} is owned by session '{self.receivers.owners()[0][0]}', which reads it by place as a Spark query "
                "does, and is not taken over; stop that query, or close that reading",
                subscription=self.name,
            )
        others = [holder for holder, _ in self.receivers if holder[0] != session]
        if len(others) < len(self.receivers):
            raise SubscriptionInUse(
                f"{self.title} has a receiver of this very session; close that one, or use another subscription",
                subscription=self.name,
            )
        if any(user_of(other) != user_of(session) for other, _ in others):
            raise SubscriptionInUse(
                f"{self.title} has a receiver of another user, who alone may take it over; close that one first",
                subscription=self.name,
            )
        return others

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "waiting": self.backlog.waiting,
            "receivers": len(self.receivers),
            **self.account(),
            "is_durable": self.is_durable,
            "is_shared": self.terms.is_shared,
            "no_local": self.terms.no_local,
            "selector": self.terms.selector or None,
            **self.terms.limits.describe(),
            "pattern": None,
        }


class PatternSubscription(Subscription):
    """One backlog that all topics fill whose names match, those that exist and those to come (rule 12)."""

    def __init__(self, pattern: Pattern, name: str, bodies: Bodies, terms: Terms) -> None:
        super().__init__(key_of(pattern), name, Settings(), bodies, terms)
        self.pattern = pattern

    @property
    def title(self) -> str:
        return f"subscription '{self.name}' of all topics that match '{self.pattern}'"

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "pattern": self.pattern.text, "match": self.pattern.kind}


def key_of(pattern: Pattern) -> str:
    """The text for a pattern in the key of a backlog; no topic can have this name."""
    return f"{pattern.kind}:{pattern.text}"


def pattern_of(text: str, match: Match) -> Pattern:
    """The pattern of a text; BadPattern if it is none."""
    return Pattern.glob(text) if match == "glob" else Pattern.regex(text)


def where_of(text: str, match: Match) -> str | Pattern:
    """The name of a topic (or a queue), or a pattern; BadName, BadPattern if it is none. The key of a pattern is no name."""
    if match != "name":
        return pattern_of(text, match)
    check_letters("destination", text)
    return text


def key_of_where(where: str | Pattern) -> str:
    """The text for a topic, or for a pattern, in keys."""
    return where if isinstance(where, str) else key_of(where)


def key_of_topic(text: str, match: Match) -> str:
    """The text for a topic, or for a pattern, in keys; BadName, BadPattern if it is none."""
    return key_of_where(where_of(text, match))


def where_of_key(key: str) -> str | Pattern:
    """The name of a destination, or the pattern, in the key of a backlog; BadName, BadPattern if it is neither."""
    match, colon, text = key.partition(":")
    if not colon:
        return where_of(key, "name")
    if match in ("glob", "regex"):
        return pattern_of(text, "glob" if match == "glob" else "regex")
    raise BadPattern(f"{key!r:.60} is neither a name nor a pattern; a pattern is written glob:… or regex:…", pattern=key[:60])


def pattern_of_key(key: str) -> Pattern | None:
    """The pattern in the key of a backlog; None for the name of a destination."""
    where = where_of_key(key)
    return None if isinstance(where, str) else where
