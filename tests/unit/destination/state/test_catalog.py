"""The catalog: what is listed page by page, and which names are like others."""

from __future__ import annotations

import random

from holdfast.destination.command import Create, Delete, Subscribe, Unsubscribe
from holdfast.destination.directory import Directory
from tests.machines import Manager, manager_at_work


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


def test_a_name_is_like_a_pattern_that_matches_it_or_a_topic_of_the_same_family_while_that_is_there() -> None:
    manager = Manager()
    manager.ask(Create("prices.eu", "topic"))
    manager.ask(Subscribe("alarms.>", "pager", True, match="glob"))
    catalog = manager.directory.catalog

    assert catalog.resembled("prices.us") == "prices.eu"
    assert catalog.resembled("alarms.fire.north") == "alarms.>"
    assert [catalog.resembled(name) for name in ("prices", "prices.eu.de", "orders.in", "alarms", "_LOG.x")] == [None] * 5

    manager.ask(Delete("prices.eu"))

    assert catalog.resembled("prices.us") is None
    assert Directory.restore(manager.directory.snapshot()).catalog.resembled("alarms.fire") == "alarms.>"
