"""The catalog: what is listed page by page."""

from __future__ import annotations

import random

from holdfast.destination.command import Create, Delete, Subscribe, Unsubscribe
from tests.machines import manager_at_work


def test_pages_of_destinations_and_subscriptions_stay_sorted_whatever_is_made_and_deleted() -> None:
    manager = manager_at_work()
    catalog, dice = manager.directory.catalog, random.Random(7)
    assert catalog.listing() and catalog.every_subscription(("", ""), 10)

    for _ in range(200):
        name = f"t.{dice.randrange(20)}"
        manager.append(dice.choice([Create(name, "topic"), Delete(name), Subscribe(name, "s", True), Unsubscribe(name, "s")]))

        assert [each["name"] for each in catalog.listing()] == sorted(catalog.destinations)
        subscribed = sorted(key for key in catalog.queues if key[1])
        assert [each.key for each in catalog.every_subscription(("", ""), 100)] == subscribed
        after = [key for key in subscribed if key > ("t.5", "s")]
        assert [each.key for each in catalog.every_subscription(("t.5", "s"), 3)] == after[:3]
