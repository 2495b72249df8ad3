"""A topic: every event goes to every subscription there is when the event is placed.

    batch ─▶ topic ─┬▶ subscription "audit"       waiting, finished, each for itself
                    ├▶ subscription "pager"       with a selector: only events that match
                    └▶ subscription of "alerts.*" filled by all topics that match

A batch is finished when every subscription has finished it (A5); without subscriptions it is finished at once. All
subscriptions refer to the same positions: an event is in the channel once, however many wait for it.

Patterns are matched when a topic is created and when somebody subscribes, never when an event comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from holdfast.destination.backlog.bodies import Bodies
from holdfast.destination.effect import Placed
from holdfast.destination.settings import Settings
from holdfast.destination.state import subscription_matching
from holdfast.destination.state.producers import Batch
from holdfast.destination.state.subscription import PatternSubscription, Subscription, Terms
from holdfast.errors import NoSuchSubscription


class Topic:
    kind = "topic"

    def __init__(self, name: str, settings: Settings, bodies: Bodies, owner: str = "") -> None:
        """`owner` is the session that a temporary topic belongs to."""
        self.name = name
        self.settings = settings
        self.owner = owner
        self.is_unconfigured = False  # as in a queue
        self._bodies = bodies
        self.accepted_count = 0  # events ever sent to it, with or without subscriptions
        self.subscriptions: dict[str, Subscription] = {}
        self.patterns: list[PatternSubscription] = []
        self._filtered_count = 0  # subscriptions that do not take every event

    def place(self, batch: Batch, unwanted: int = 0) -> list[Placed]:
        """`unwanted` are the bits of events that nobody gets."""
        self.accepted_count += batch.events - unwanted.bit_count()
        if self._filtered_count or unwanted:
            return subscription_matching.place(batch, self.filled(), unwanted)
        return [subscription.place(batch) for subscription in self.filled()]

    def subscription(self, name: str) -> Subscription:
        found = self.subscriptions.get(name)
        if found is None:
            raise NoSuchSubscription(
                f"topic '{self.name}' has no subscription '{name}'; list those that exist (holdfast subscription list), or "
                "subscribe",
                topic=self.name,
                subscription=name,
            )
        return found

    def subscribe(self, name: str, terms: Terms) -> Subscription:
        """Add a subscription that is not there."""
        self.subscriptions[name] = added = Subscription(self.name, name, self.settings, self._bodies, terms)
        self._filtered_count += added.is_filtered
        return added

    def unsubscribe(self, name: str) -> None:
        self._filtered_count -= self.subscriptions.pop(name).is_filtered

    def join(self, pattern: PatternSubscription) -> None:
        """The subscription of this pattern takes the events of this topic from now on, if the topic's name matches."""
        if not self.owner and not self.name.startswith("_") and pattern.pattern.matches(self.name):
            self.patterns.append(pattern)
            self._filtered_count += pattern.is_filtered

    def leave(self, pattern: PatternSubscription) -> None:
        if pattern in self.patterns:
            self.patterns.remove(pattern)
            self._filtered_count -= pattern.is_filtered

    def filled(self) -> Iterator[Subscription]:
        """The subscriptions it fills: its own, and those of patterns that its name matches."""
        return chain(self.subscriptions.values(), self.patterns)

    @property
    def is_filtered(self) -> bool:
        """Some subscription does not take every event."""
        return self._filtered_count > 0

    def selecting(self) -> Iterator[Subscription]:
        """The subscriptions it fills that have a selector."""
        return (each for each in self.filled() if each.selector is not None) if self._filtered_count else iter(())

    def describe(self) -> dict[str, Any]:
        subscriptions = [subscription.describe() for subscription in self.subscriptions.values()]
        return {
            "name": self.name,
            "kind": self.kind,
            "waiting": sum(subscription["waiting"] for subscription in subscriptions),
            "receivers": sum(subscription["receivers"] for subscription in subscriptions),
            "accepted": self.accepted_count,
            "subscriptions": subscriptions,
            **self.settings.describe(),
        }
