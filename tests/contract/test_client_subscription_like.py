"""A subscription made like another, over every place a client can find its events at."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast import blocking
from holdfast.errors import BadName, BadSetting, NoSuchSubscription, SubscriptionInUse
from tests.contract.places import name, server, url
from tests.waiting import until

__all__ = ["name", "server", "url"]


async def taken(client: holdfast.Client, topic: str, subscription: str, count: int) -> list[tuple[object, int, int]]:
    """(data, position, deliveries) of the next events, confirmed."""
    found = []
    async with client.subscribe(topic, subscription) as incoming:
        for _ in range(count):
            event = await incoming.next(timeout=10)
            found.append((event.data, event.position, event.deliveries))
            await event.confirm()
    return found


async def test_it_has_what_the_other_has_waiting_and_in_flight_and_all_that_comes_after(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.session() as beside:
        await client.create_topic(name)
        await client.create_subscription(name, "first")
        await client.topic(name).send_many(range(4))
        async with client.subscribe(name, "first", credit=2) as incoming:
            await (await incoming.next(timeout=10)).confirm()
            await incoming.settled()
            held = await incoming.next(timeout=10)
            await client.create_subscription(name, "second", like="first")
            await client.topic(name).send(4)

            copied = await taken(beside, name, "second", 4)  # type: ignore[arg-type]

            assert [data for data, _, _ in copied] == [1, 2, 3, 4]
            assert copied[0][1:] == (held.position, 0)
            await held.confirm()
        assert [data for data, _, _ in await taken(client, name, "first", 3)] == [2, 3, 4]


async def test_no_event_is_missing_or_doubled_however_busy_the_topic_is(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        await client.create_subscription(name, "first")
        sending = asyncio.create_task(client.topic(name).send_many(range(3_000)))
        await until(lambda: holds_some(client, name), "some events wait")
        await client.create_subscription(name, "second", like="first")
        await sending

        for subscription in ("second", "first"):
            assert [data for data, _, _ in await taken(client, name, subscription, 3_000)] == list(range(3_000))


async def holds_some(client: holdfast.Client, topic: str) -> bool:
    return bool((await client.describe(topic))["waiting"])


async def test_it_has_the_terms_of_the_other_and_takes_none_of_its_own(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        await client.create_subscription(name, "first", selector="amount > 100", shared=True)
        await client.topic(name).send("small", properties={"amount": 1})
        await client.topic(name).send("large", properties={"amount": 120})

        await client.create_subscription(name, "second", like="first")

        first, second = sorted(await client.subscriptions(name), key=lambda row: row["name"])
        assert (second["selector"], second["is_shared"], second["waiting"]) == ("amount > 100", True, 1)
        assert (first["selector"], first["waiting"]) == ("amount > 100", 1)
        with pytest.raises(BadSetting, match="selector"):
            await client.create_subscription(name, "third", like="first", selector="amount > 7")


async def test_what_cannot_be_copied_is_refused(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        await client.create_subscription(name, "first")
        await client.create_subscription(name, "second")
        with pytest.raises(NoSuchSubscription):
            await client.create_subscription(name, "third", like="nobody")
        with pytest.raises(BadName):
            await client.create_subscription(name, "third", like="_first")
        with pytest.raises(SubscriptionInUse, match="replace=True"):
            await client.create_subscription(name, "second", like="first")
        await client.topic(name).send(1)
        await client.create_subscription(name, "second", like="first", replace=True)

        assert [data for data, _, _ in await taken(client, name, "second", 1)] == [1]


async def test_a_wildcard_and_a_delayed_and_an_expired_event_are_copied_as_they_are(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_subscription(f"{name}.*", "first")
        topic = client.topic(f"{name}.eu")
        await topic.send("late", delay_ms=100)
        await topic.send("gone", ttl_ms=1)

        await client.create_subscription(f"{name}.*", "second", like="first")

        assert [data for data, _, _ in await taken(client, f"{name}.*", "second", 1)] == ["late"]

        async def is_empty() -> bool:
            return all(row["waiting"] == (row["name"] == "first") for row in await client.subscriptions(f"{name}.*"))

        await until(is_empty, "the expired event is dead in both, though nobody receives from one")


def test_a_program_without_a_loop_makes_one_too(url: str, name: str) -> None:
    with blocking.connect(url) as client:
        client.create_topic(name)
        client.create_subscription(name, "first")
        client.topic(name).send(1)

        client.create_subscription(name, "second", like="first")

        with client.subscribe(name, "second") as incoming:
            assert incoming.next(timeout=10).data == 1
