"""A subscription: a topic's memory of one recipient. It is a queue that the topic fills; or many topics, for a pattern.

                   who receives                       it goes
    own            its session, unnamed               with its session
    durable        one receiver at a time             when it is unsubscribed; it remembers while nobody receives
    shared         any number, each event to one      with its last receiver
    shared durable any number, each event to one      when it is unsubscribed

What waits in a subscription that ends is not dead: its recipient said that it wants no more.

    selector       it takes only the events of which the condition is TRUE; the others were never meant for it
    no_local       it takes nothing that its own client sent
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from holdfast.destination.bodies import Bodies
from holdfast.destination.command import Settings
from holdfast.destination.effect import BacklogKey
from holdfast.destination.queue import Queue
from holdfast.event.pattern import Pattern
from holdfast.event.selector import Selector, parse_optional

Match = Literal["name", "glob", "regex"]


class Terms(NamedTuple):
    """What a recipient agreed on when it subscribed."""

    owner: str = ""  # the session that one of its own belongs to
    is_durable: bool = True
    is_shared: bool = False
    selector: str = ""
    no_local: bool = False
    client: str = ""  # with no_local: whose events it does not want

    @property
    def kind(self) -> str:
        """What it is called in sentences."""
        if self.owner:
            return f"belongs to session '{self.owner}'"
        durability = "durable" if self.is_durable else "non-durable"
        return f"is shared and {durability}" if self.is_shared else f"is {durability} and not shared"

    @property
    def choice(self) -> tuple[str, bool]:
        """Which events it takes."""
        return self.selector, self.no_local


class Subscription(Queue):
    kind = "subscription"

    def __init__(self, topic: str, name: str, settings: Settings, bodies: Bodies, terms: Terms | None = None) -> None:
        super().__init__(name, settings, bodies)
        self.topic = topic
        self.terms = terms or Terms()
        self.owner = self.terms.owner
        self.made_at = 0  # the entry that made it: one that is deleted and made again is another
        self.confirmed_up_to = 0  # a place: everything before it was confirmed at once (see `extent`)
        self.selector: Selector | None = parse_optional(self.terms.selector)

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
        """It does not take everything."""
        return self.selector is not None or self.terms.no_local

    @property
    def goes_with_its_last_receiver(self) -> bool:
        return not self.terms.is_durable and not self.owner

    @property
    def is_for_one(self) -> bool:
        """At most one receiver at a time."""
        return not self.terms.is_shared

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
            "pattern": None,
        }


class PatternSubscription(Subscription):
    """One backlog that all topics fill whose names match, those that are there and those to come (rule 12)."""

    def __init__(self, pattern: Pattern, name: str, bodies: Bodies, terms: Terms) -> None:
        super().__init__(key_of(pattern), name, Settings(), bodies, terms)
        self.pattern = pattern

    @property
    def title(self) -> str:
        return f"subscription '{self.name}' of all topics that match '{self.pattern}'"

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "pattern": self.pattern.text, "match": self.pattern.kind}


def key_of(pattern: Pattern) -> str:
    """What stands for the topic in the key of a backlog; no topic can be called so."""
    return f"{pattern.kind}:{pattern.text}"


def pattern_of(text: str, match: Match) -> Pattern:
    """BadPattern for what is none."""
    return Pattern.glob(text) if match == "glob" else Pattern.regex(text)


def key_of_topic(topic: str, match: Match) -> str:
    """What stands in keys for a topic, or for a pattern; BadPattern for one that is none."""
    return topic if match == "name" else key_of(pattern_of(topic, match))


def pattern_of_key(key: str) -> Pattern | None:
    """The pattern that stands in the key of a backlog; None for the name of a destination."""
    match, colon, text = key.partition(":")
    if not colon:
        return None
    return pattern_of(text, "glob" if match == "glob" else "regex")
