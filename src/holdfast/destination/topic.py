"""A topic: every event goes to every subscription there is when the event is placed.

    batch ─▶ topic ─┬▶ subscription "audit"       waiting, finished, each for itself
                    ├▶ subscription "pager"       with a selector: only what matches
                    └▶ subscription of "alerts.*" filled by all topics that match

A batch is finished when every subscription has finished it (A5); with no subscription it is finished at once. All
subscriptions refer to the same positions: an event is in the channel once, however many wait for it.

Which pattern subscriptions match is found out when a topic is created and when somebody subscribes, never when an event comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.destination import matching
from holdfast.destination.bodies import Bodies
from holdfast.destination.command import Settings
from holdfast.destination.effect import Placed
from holdfast.destination.producers import Batch
from holdfast.destination.subscription import PatternSubscription, Subscription, Terms
from holdfast.errors import NoSuchSubscription


class Topic:
    kind = "topic"

    def __init__(self, name: str, settings: Settings, bodies: Bodies, owner: str = "") -> None:
        """`owner` is the session that a temporary topic belongs to."""
        self.name = name
        self.settings = settings
        self.owner = owner
        self._bodies = bodies
        self.accepted_count = 0  # events ever sent to it, whether somebody subscribed or not
        self.subscriptions: dict[str, Subscription] = {}
        self.patterns: list[PatternSubscription] = []
        self._filled: list[Subscription] = []
        self._is_filtered = False

    def place(self, batch: Batch) -> list[Placed]:
        self.accepted_count += batch.events
        if self._is_filtered:
            return matching.place(batch, self._filled)
        return [subscription.place(batch) for subscription in self._filled]

    def subscription(self, name: str) -> Subscription:
        found = self.subscriptions.get(name)
        if found is None:
            raise NoSuchSubscription(
                f"topic '{self.name}' has no subscription '{name}'; subscribe first", topic=self.name, subscription=name
            )
        return found

    def subscribe(self, name: str, terms: Terms) -> Subscription:
        """Add a subscription that is not there."""
        self.subscriptions[name] = added = Subscription(self.name, name, self.settings, self._bodies, terms)
        self._note_filled()
        return added

    def unsubscribe(self, name: str) -> None:
        del self.subscriptions[name]
        self._note_filled()

    def join(self, pattern: PatternSubscription) -> None:
        """This pattern's subscription takes what comes to this topic from now on, if the topic's name matches."""
        if not self.owner and not self.name.startswith("_") and pattern.pattern.matches(self.name):
            self.patterns.append(pattern)
            self._note_filled()

    def leave(self, pattern: PatternSubscription) -> None:
        if pattern in self.patterns:
            self.patterns.remove(pattern)
            self._note_filled()

    def _note_filled(self) -> None:
        self._filled = [*self.subscriptions.values(), *self.patterns]
        self._is_filtered = any(subscription.is_filtered for subscription in self._filled)

    def selecting(self) -> Iterator[Subscription]:
        """Those subscriptions it fills that have a selector."""
        return (each for each in self._filled if each.selector is not None) if self._is_filtered else iter(())

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
