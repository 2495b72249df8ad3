"""Wildcard subscriptions over every place a client can find its events at (B15, rule 12)."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast.errors import BadPattern, SubscriptionInUse
from tests.contract.places import name, server, url
from tests.contract.test_client_subscriptions import described, is_silent, take

__all__ = ["name", "server", "url"]


async def test_a_wildcard_receives_from_topics_that_are_there_and_from_those_to_come(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(f"{name}.old")
        async with client.subscribe(f"{name}.*") as incoming:
            await client.topic(f"{name}.old").send(1)
            await client.topic(f"{name}.new").send(2)
            await client.topic(f"{name}.new.deeper").send(3)

            events = [await incoming.next(timeout=10) for _ in range(2)]

            assert [(event.destination, event.data) for event in events] == [(f"{name}.old", 1), (f"{name}.new", 2)]
            assert await is_silent(incoming)
        assert await client.subscriptions(f"{name}.*") == []


async def test_a_regular_expression_receives_from_what_it_fits_as_a_whole(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.subscribe(regex=rf"{name}\.(eu|us)\..*") as incoming:
        for topic in ("eu.a", "asia.a", "us.b", "us"):
            await client.topic(f"{name}.{topic}").send(topic)

        assert await take(incoming, 2) == ["eu.a", "us.b"]
        assert await is_silent(incoming)


async def test_a_named_wildcard_is_durable_and_remembers_where_each_event_was_sent(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        async with client.subscribe(f"{name}.>", "pager"):
            pass
        await client.topic(f"{name}.a").send(1)
        await client.topic(f"{name}.b.c").send(2)

        async with client.subscribe(f"{name}.>", "pager") as incoming:
            events = [await incoming.next(timeout=10) for _ in range(2)]

            assert [event.destination for event in events] == [f"{name}.a", f"{name}.b.c"]


async def test_a_wildcard_subscription_can_be_shared_and_have_a_selector(url: str, name: str) -> None:
    async with (
        holdfast.connect(url) as client,
        client.subscribe(f"{name}.*", "pool", shared=True, selector="n > 1", credit=1) as first,
        client.subscribe(f"{name}.*", "pool", shared=True, selector="n > 1", credit=1) as second,
    ):
        for n in range(4):
            await client.topic(f"{name}.{n}").send(n, properties={"n": n})

        found = await asyncio.gather(take(first, 1), take(second, 1))

        assert sorted([*found[0], *found[1]]) == [2, 3]


async def test_an_unshared_wildcard_subscription_has_one_receiver_at_a_time(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.subscribe(f"{name}.*", "pager"):
        with pytest.raises(SubscriptionInUse, match="shared=True"):
            await client.subscribe(f"{name}.*", "pager").open()


async def test_what_waits_in_a_wildcard_subscription_outlives_its_topic(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_subscription(f"{name}.*", "pager")
        await client.topic(f"{name}.a").send(1)
        await client.delete(f"{name}.a")

        async with client.subscribe(f"{name}.*", "pager") as incoming:
            assert await take(incoming, 1) == [1]


async def test_a_wildcard_subscription_is_created_listed_and_deleted_by_administration(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(f"{name}.a")
        await client.create_subscription(f"{name}.*", "pager", selector="n > 1")

        for topic in (f"{name}.a", f"{name}.*"):
            found = await described(client, topic, "pager")
            assert (found["pattern"], found["match"], found["selector"]) == (f"{name}.*", "glob", "n > 1")

        await client.delete_subscription(f"{name}.*", "pager")
        assert await client.subscriptions(f"{name}.a") == []


async def test_every_event_sent_right_after_its_topic_was_created_reaches_the_wildcards(url: str, name: str) -> None:
    """B15: with no gap."""
    count = 50
    async with (
        holdfast.connect(url) as client,
        client.subscribe(f"{name}.*") as glob,
        client.subscribe(regex=rf"{name}\.\d+") as regex,
    ):
        await asyncio.gather(*(client.topic(f"{name}.{number}").send(number) for number in range(count)))

        assert sorted(await take(glob, count)) == list(range(count))
        assert sorted(await take(regex, count)) == list(range(count))


async def test_a_wildcard_does_not_receive_what_holdfast_says_of_itself(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.subscribe("**", selector=f"subject = '{name}'") as incoming:
        temporary = await client.temporary_topic()
        await temporary.send(1, subject=name)
        await client.topic(name).send(2, subject=name)

        assert await take(incoming, 1) == [2]


async def test_the_wildcards_of_mqtt_are_refused_where_a_topic_is_named_and_ours_are_said(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        for topic in (f"{name}.#", f"{name}.+"):
            with pytest.raises(BadPattern, match=r"write \*\* for any number of words and \* for one word"):
                client.subscribe(topic)


async def test_a_word_of_a_wildcard_is_never_empty(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        for topic in (f"{name}.", f"{name}.new"):
            await client.create_topic(topic)
        async with client.subscribe(f"{name}.*") as incoming:
            await client.topic(f"{name}.").send("empty")
            await client.topic(f"{name}.new").send("new")

            assert await take(incoming, 1) == ["new"]
