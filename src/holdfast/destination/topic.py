"""A topic: every event goes to every subscription there is when the event is placed.

    batch ─▶ topic ─┬▶ subscription "audit"   waiting, finished, each for itself
                    └▶ subscription "pager"

A batch is finished when every subscription has finished it (A5); with no subscription it is finished at once. All
subscriptions refer to the same positions: an event is in the channel once, however many wait for it.
"""

from __future__ import annotations

from typing import Any

from holdfast.destination.bodies import Bodies
from holdfast.destination.command import Settings
from holdfast.destination.effect import Placed
from holdfast.destination.producers import Batch
from holdfast.destination.subscription import Subscription
from holdfast.errors import NoSuchSubscription, SubscriptionInUse


class Topic:
    kind = "topic"

    def __init__(self, name: str, settings: Settings, bodies: Bodies) -> None:
        self.name = name
        self.settings = settings
        self._bodies = bodies
        self.subscriptions: dict[str, Subscription] = {}

    def place(self, batch: Batch) -> list[Placed]:
        return [subscription.place(batch) for subscription in self.subscriptions.values()]

    def subscription(self, name: str) -> Subscription:
        found = self.subscriptions.get(name)
        if found is None:
            raise NoSuchSubscription(
                f"topic '{self.name}' has no subscription '{name}'; subscribe first", topic=self.name, subscription=name
            )
        return found

    def subscribe(self, name: str, owner: str) -> Subscription | None:
        """Add a subscription, unless it is there; the new one."""
        found = self.subscriptions.get(name)
        if found is None:
            self.subscriptions[name] = added = Subscription(self.name, name, self.settings, self._bodies, owner)
            return added
        if found.owner != owner:
            kept = f"belongs to session '{found.owner}'" if found.owner else "is durable"
            raise SubscriptionInUse(
                f"{found.title} is there already and {kept}; use another name", topic=self.name, subscription=name
            )
        return None

    def describe(self) -> dict[str, Any]:
        subscriptions = [subscription.describe() for subscription in self.subscriptions.values()]
        return {
            "name": self.name,
            "kind": self.kind,
            "waiting": sum(subscription["waiting"] for subscription in subscriptions),
            "receivers": sum(subscription["receivers"] for subscription in subscriptions),
            "subscriptions": subscriptions,
            "redelivery_limit": self.settings.redelivery_limit,
        }
