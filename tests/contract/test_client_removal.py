"""Subscriptions that are removed past a limit, over every place a client can find its events at."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import blocking
from holdfast.errors import BadSetting, SettingsDiffer, SubscriptionRemoved
from tests.contract.places import name, server, url
from tests.waiting import until

__all__ = ["name", "server", "url"]


async def is_gone(client: holdfast.Client, topic: str, subscription: str = "slow") -> bool:
    return subscription not in [row["name"] for row in await client.subscriptions(topic)]


async def test_past_its_limit_of_events_it_is_gone_and_the_others_have_everything(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        await client.create_subscription(name, "slow", remove_after_events=10)
        await client.create_subscription(name, "audit")
        await client.topic(name).send_many(range(10))
        assert not await is_gone(client, name), "so many may wait"

        await client.topic(name).send(10)
        await until(lambda: is_gone(client, name), "the subscription is gone")

        (left,) = await client.subscriptions(name)
        assert (left["name"], left["waiting"]) == ("audit", 11)


async def test_its_receiver_is_told_that_it_was_removed_and_why(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        incoming = await client.subscribe(name, "slow", remove_after_events=2, credit=1).open()
        held_up = client.topic(name)
        await held_up.send_many(range(3))

        with pytest.raises(SubscriptionRemoved, match="3 events wait, and 2 may"):
            while True:
                await incoming.next(timeout=10)
        await incoming.close()


async def test_a_subscription_in_time_is_never_removed(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        terms = {"remove_after_events": 50, "remove_after_bytes": 1 << 20, "remove_after": "10m"}
        async with client.subscribe(name, "quick", **terms) as incoming:  # type: ignore[arg-type]
            for n in range(200):
                await client.topic(name).send(n)
                event = await incoming.next(timeout=10)
                assert event.data == n
                await event.confirm()
                await incoming.settled()


async def test_past_its_limit_of_bytes_it_is_gone(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        await client.create_subscription(name, "slow", remove_after_bytes=20_000)
        await client.topic(name).send(b"x" * 10_000)
        assert not await is_gone(client, name)

        await client.topic(name).send(b"x" * 10_000)

        await until(lambda: is_gone(client, name), "the subscription is gone")


async def test_it_is_gone_when_its_oldest_event_has_waited_too_long_although_nothing_more_comes(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        await client.create_subscription(name, "slow", remove_after=0.3)
        await client.create_subscription(name, "patient", remove_after="1h")
        await client.topic(name).send(1)

        await until(lambda: is_gone(client, name), "the subscription is gone")

        assert not await is_gone(client, name, "patient")


async def test_a_topic_is_not_blocked_by_a_subscription_that_is_removed_past_a_limit(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name, events_max=5)
        await client.create_subscription(name, "slow", remove_after_events=100)
        await client.topic(name).send_many(range(50), timeout=10)
        assert not (await client.describe(name))["is_blocked"]

        await client.create_subscription(name, "audit")
        await client.topic(name).send_many(range(5), timeout=10)

        assert (await client.describe(name))["is_blocked"], "one without limits blocks it, as before"
        await client.delete_subscription(name, "audit", force=True)
        await client.topic(name).unblocked(timeout=10)


async def test_limits_are_described_ensured_and_changed(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        terms = {"remove_after_events": 7, "remove_after": "90s"}
        assert await client.ensure_subscription(name, "slow", **terms) == "created"  # type: ignore[arg-type]
        assert await client.ensure_subscription(name, "slow", **terms) == "unchanged"  # type: ignore[arg-type]
        assert await client.ensure_subscription(name, "slow") == "unchanged"
        with pytest.raises(SettingsDiffer, match="remove_after_events"):
            await client.ensure_subscription(name, "slow", remove_after_events=8)
        assert await client.ensure_subscription(name, "slow", remove_after_events=8, update=True) == "changed"
        async with client.subscribe(name, "slow"):
            pass

        (row,) = (await client.describe(name))["subscriptions"]
        assert (row["remove_after_events"], row["remove_after_bytes"], row["remove_after"]) == (8, 0, 90)


async def test_what_is_no_limit_is_refused_before_anything_travels(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        for wrong in ({"remove_after_events": -1}, {"remove_after_bytes": 1.5}, {"remove_after": "soon"}):
            with pytest.raises(BadSetting, match="remove_after"):
                await client.create_subscription(name, "slow", **wrong)
            with pytest.raises(BadSetting, match="remove_after"):
                client.subscribe(name, "slow", **wrong)


def test_a_program_without_a_loop_has_limits_too(url: str, name: str) -> None:
    with blocking.connect(url) as client, client.subscribe(name, "slow", remove_after_events=1, credit=1) as incoming:
        client.topic(name).send_many([1, 2])

        with pytest.raises(SubscriptionRemoved):
            while True:
                incoming.next(timeout=10)
