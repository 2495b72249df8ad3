"""Subscriptions of every kind over every place a client can find its events at: own, durable, shared; selectors, no-local."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

import holdfast
from holdfast.client.client import Client
from holdfast.client.receiving.incoming import Incoming
from holdfast.errors import (
    BadName,
    BadPattern,
    BadSelector,
    BadSetting,
    NoSuchSubscription,
    NotEmpty,
    SubscriptionInUse,
    TimedOut,
)
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]


async def take(incoming: Incoming, count: int) -> list[Any]:
    """The data of the next events, confirmed."""
    found = []
    for _ in range(count):
        event = await incoming.next(timeout=10)
        found.append(event.data)
        await event.confirm()
    await incoming.settled()
    return found


async def is_silent(incoming: Incoming) -> bool:
    """Nothing is on its way: what was sent before this was asked would have come."""
    try:
        await incoming.next(timeout=0.1)
    except TimedOut:
        return True
    return False


async def send(client: Client, topic: str, values: Iterable[int]) -> None:
    for n in values:
        await client.topic(topic).send(n, properties={"n": n})


async def described(client: Client, topic: str, subscription: str) -> holdfast.SubscriptionDescription:
    return next(each for each in await client.subscriptions(topic) if each["name"] == subscription)


async def test_a_non_durable_subscription_gets_what_is_sent_while_it_receives_and_is_gone_with_its_receiver(
    url: str, name: str
) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        await send(client, name, [1])
        async with client.subscribe(name) as incoming:
            await send(client, name, [2])

            assert await take(incoming, 1) == [2]

        assert await client.subscriptions(name) == []


async def test_a_durable_subscription_remembers_while_nobody_receives(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        async with client.subscribe(name, "audit"):
            pass
        await send(client, name, [1, 2])

        async with client.subscribe(name, "audit") as incoming:
            assert await take(incoming, 2) == [1, 2]


async def test_an_unshared_durable_subscription_has_one_receiver_at_a_time(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        async with client.subscribe(name, "audit"):
            with pytest.raises(SubscriptionInUse, match="shared=True"):
                await client.subscribe(name, "audit").open()

        async with client.subscribe(name, "audit") as incoming:
            await send(client, name, [1])
            assert await take(incoming, 1) == [1]


async def test_each_event_of_a_shared_durable_subscription_goes_to_one_of_its_receivers(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        async with (
            client.subscribe(name, "pool", shared=True, credit=1) as first,
            client.subscribe(name, "pool", shared=True, credit=1) as second,
        ):
            await send(client, name, range(10))

            found = await asyncio.gather(take(first, 5), take(second, 5))

            assert sorted([*found[0], *found[1]]) == list(range(10))
        assert (await described(client, name, "pool"))["is_shared"]


async def test_a_shared_durable_subscription_remembers_while_nobody_receives(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        async with client.subscribe(name, "pool", shared=True):
            pass
        await send(client, name, [1])

        async with client.subscribe(name, "pool", shared=True) as incoming:
            assert await take(incoming, 1) == [1]


async def test_a_shared_non_durable_subscription_is_shared_and_goes_with_its_last_receiver(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        async with client.subscribe(name, "pool", durable=False, shared=True) as first:
            async with client.subscribe(name, "pool", durable=False, shared=True):
                assert (await described(client, name, "pool"))["receivers"] == 2
            await send(client, name, [1, 2])
            assert await take(first, 2) == [1, 2]

        assert await client.subscriptions(name) == []


async def test_a_subscription_with_a_selector_gets_what_matches_and_keeps_nothing_else(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.subscribe(name, "large", selector="n > 2") as incoming:
        await client.topic(name).send_many(holdfast.Event(data=n, properties={"n": n}) for n in range(5))

        assert await take(incoming, 2) == [3, 4]
        assert (await described(client, name, "large"))["waiting"] == 0


async def test_the_subscriptions_of_one_topic_have_each_their_own_selector(url: str, name: str) -> None:
    async with (
        holdfast.connect(url) as client,
        client.subscribe(name, selector="n < 2") as small,
        client.subscribe(name, selector="n >= 2") as large,
        client.subscribe(name) as everything,
    ):
        await send(client, name, range(4))

        assert await take(small, 2) == [0, 1]
        assert await take(large, 2) == [2, 3]
        assert await take(everything, 4) == [0, 1, 2, 3]


@pytest.mark.parametrize("terms", [{"selector": "n = 2"}, {"selector": "n = 1", "no_local": True}, {}])
async def test_a_durable_subscription_in_which_something_waits_keeps_its_terms_unless_replace_is_said(
    url: str, name: str, terms: dict[str, Any]
) -> None:
    async with holdfast.connect(url) as client:
        async with client.subscribe(name, "audit", selector="n = 1"):
            await send(client, name, [1, 2])

        with pytest.raises(NotEmpty, match=r"1 event waits in it.*replace=True"):
            await client.subscribe(name, "audit", **terms).open()
        with pytest.raises(NotEmpty, match=r"1 event waits in it.*replace=True"):
            await client.create_subscription(name, "audit", **terms)
        assert (await described(client, name, "audit"))["waiting"] == 1

        async with client.subscribe(name, "audit", **terms, replace=True):
            assert (await described(client, name, "audit"))["waiting"] == 0


async def test_a_durable_subscription_in_which_nothing_waits_takes_another_selector(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        async with client.subscribe(name, "audit", selector="n = 1") as incoming:
            await send(client, name, [1, 2])
            assert await take(incoming, 1) == [1]

        async with client.subscribe(name, "audit", selector="n = 2") as incoming:
            await send(client, name, [1, 2])

            assert await take(incoming, 1) == [2]
            assert await is_silent(incoming)


async def test_a_durable_subscription_that_is_received_from_cannot_be_made_anew(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.subscribe(name, "pool", shared=True, selector="n = 1") as incoming:
        with pytest.raises(SubscriptionInUse, match="another selector"):
            await client.subscribe(name, "pool", shared=True, selector="n = 2").open()

        await send(client, name, [1])
        assert await take(incoming, 1) == [1]


async def test_a_subscription_is_shared_or_not_until_it_is_replaced(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        await client.create_subscription(name, "audit")
        await send(client, name, [1, 2])

        with pytest.raises(SubscriptionInUse, match=r"not shared.*replace=True.*2 events wait in it"):
            await client.subscribe(name, "audit", shared=True).open()

        await client.create_subscription(name, "audit", shared=True, replace=True)
        found = await described(client, name, "audit")
        assert (found["is_shared"], found["waiting"]) == (True, 0)


async def test_with_no_local_a_subscription_gets_nothing_that_its_own_client_sends(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.session() as session, client.subscribe(name, no_local=True) as incoming:
        await send(client, name, [1])
        await session.topic(name).send(2)

        assert await is_silent(incoming)


async def test_with_no_local_a_subscription_gets_what_other_clients_send(name: str) -> None:
    async with (
        holdfast.connect("memory:two") as mine,
        holdfast.connect("memory:two") as other,
        mine.subscribe(name, "audit", no_local=True) as incoming,
    ):
        await send(mine, name, [1])
        await send(other, name, [2])

        assert await take(incoming, 1) == [2]
        assert await is_silent(incoming)


async def test_a_durable_no_local_subscription_leaves_out_what_its_present_client_sends(name: str) -> None:
    async with holdfast.connect("memory:three") as former, holdfast.connect("memory:three") as later:
        async with former.subscribe(name, "audit", no_local=True):
            pass
        async with later.subscribe(name, "audit", no_local=True) as incoming:
            await send(later, name, [1])
            await send(former, name, [2])

            assert await take(incoming, 1) == [2]


async def test_a_subscription_created_by_administration_says_how_it_is(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        await client.create_subscription(name, "large", selector="n > 2", shared=True)
        await send(client, name, range(5))

        assert await client.subscriptions(name) == [
            {
                "name": "large", "waiting": 2, "receivers": 0, "accepted": 2, "confirmed": 0, "dead": 0, "expired": 0,
                "is_durable": True, "is_shared": True, "no_local": False, "selector": "n > 2", "pattern": None,
                "remove_after_events": 0, "remove_after_bytes": 0, "remove_after": 0.0,
            }
        ]  # fmt: skip


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"name": "x", "durable": False}, BadSetting, "shared=True"),
    ({"shared": True}, BadSetting, "give it one"),
    ({"durable": True}, BadSetting, "give it one"),
    ({"name": "x", "shared": True, "no_local": True}, BadSetting, "leave no_local out"),
    ({"name": "_x"}, BadName, "reserved"),
    ({"selector": "n >"}, BadSelector, "n >"),
    ({"shared": "yes", "name": "x"}, BadSetting, "True or False"),
    ({"regex": "a.*"}, BadName, "only one of them"),
]


@pytest.mark.parametrize(("wanted", "error", "says"), REFUSED)
async def test_a_subscription_that_makes_no_sense_is_refused_with_what_to_write_instead(
    wanted: dict[str, Any], error: type[Exception], says: str
) -> None:
    async with holdfast.connect("memory:") as client:
        with pytest.raises(error, match=says):
            client.subscribe("t", **wanted)


@pytest.mark.parametrize(("where", "error"), [({"topic": "a.**b"}, BadPattern), ({"regex": "a(?=b)"}, BadPattern), ({}, BadName)])
async def test_a_pattern_that_is_none_is_refused(where: dict[str, Any], error: type[Exception]) -> None:
    async with holdfast.connect("memory:") as client:
        with pytest.raises(error):
            client.subscribe(**where)


async def test_unsubscribing_what_is_not_there_is_refused(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)

        with pytest.raises(NoSuchSubscription):
            await client.delete_subscription(name, "nobody")
