"""The client over every place it can find its events at (E1): what is refused, and how; administration."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

import holdfast
from holdfast.errors import (
    BadEvent,
    BadName,
    BadSetting,
    NoSuchDestination,
    NotEmpty,
    Refused,
    SubscriptionInUse,
    TooLarge,
    WrongKind,
)
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]


async def test_an_event_has_one_verdict(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send(1)
        event = await incoming.next(timeout=10)
        await event.confirm()

        await event.confirm()
        with pytest.raises(Refused, match="was confirmed already"):
            event.release()


async def test_verdicts_that_make_no_sense_are_refused(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send(1)
        event = await incoming.next(timeout=10)

        with pytest.raises(BadSetting, match="delay"):
            event.release(delay=-1)
        with pytest.raises(BadSetting, match="reason"):
            event.reject("")
        await event.confirm()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"properties": {"a": [1]}}, "property 'a' has type list"),
        ({"properties": {"1a": 1}}, "not an identifier"),
        ({"priority": 10}, "priority 10"),
        ({"ttl_ms": 0}, "time to live"),
        ({"delay_ms": -1}, "delay"),
        ({"delay_ms": 1.5}, "delay_ms 1.5 is not possible; give a whole number"),
        ({"delay_ms": 1 << 64}, "delay_ms"),
        ({"ttl_ms": 1 << 64}, "ttl_ms"),
        ({"priority": "high"}, "priority 'high' is not possible; give a whole number"),
        ({"priority": None}, "priority"),
        ({"properties": [1]}, "properties"),
        ({"time": "now"}, "time"),
        ({"colour": "red"}, "colour"),
        ({"type": 5}, "type"),
        ({"subject": 5}, "subject"),
        ({"type": "\ud800"}, "Unicode"),
        ({"data": object()}, "cannot be encoded"),
        ({"time": datetime(2026, 1, 1)}, "time zone"),
    ],
)
async def test_an_event_that_cannot_be_sent_is_refused_with_what_to_do(fields: dict[str, Any], said: str) -> None:
    async with holdfast.connect("memory:") as client:
        with pytest.raises(BadEvent, match=said):
            await client.queue("q").send(**fields)
        with pytest.raises(BadEvent, match=said):
            async with client.queue("q").pipeline() as pipeline:
                await pipeline.send(**fields)


async def test_the_largest_event_is_taken_and_a_larger_one_refused_with_the_limit(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send(bytes((1 << 20) - 1100))
        assert len((await incoming.next(timeout=10)).data) == (1 << 20) - 1100

        with pytest.raises(TooLarge, match=str((1 << 20) - 1024)):
            await client.queue(name).send(bytes(1 << 20))


@pytest.mark.parametrize("bad", ["", "a b", "_mine", "x" * 256, 7])
async def test_a_name_that_cannot_be_is_refused(bad: Any) -> None:
    async with holdfast.connect("memory:") as client:
        with pytest.raises(BadName):
            client.queue(bad)
        with pytest.raises(BadName):
            client.subscribe("topic", bad)


async def test_a_refused_send_says_why_and_the_next_one_goes(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        with pytest.raises(WrongKind):
            await client.queue(name).send(1)
        with pytest.raises(Refused):
            await client.queue("_DMQ").send(1)

        receipt = await client.topic(name).send(1)

        assert receipt.position > 0


async def test_a_refused_batch_between_accepted_ones_holds_nothing_back(url: str, name: str) -> None:
    """Rule 6: the hole in the numbers that a refusal leaves is mended."""
    async with holdfast.connect(url) as client:
        await client.create_topic(f"{name}-t")
        outcomes = await asyncio.gather(
            client.queue(f"{name}-a").send("a"), client.queue(f"{name}-t").send("no"), client.queue(f"{name}-b").send("b"),
            return_exceptions=True,
        )  # fmt: skip
        assert isinstance(outcomes[1], WrongKind)

        async with client.queue(f"{name}-b").receive() as incoming:
            assert (await incoming.next(timeout=10)).data == "b"
            await client.queue(f"{name}-b").send("c")
            assert (await incoming.next(timeout=10)).data == "c"


async def test_a_pipeline_that_is_refused_says_so_when_it_is_left(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)

        with pytest.raises(WrongKind, match="0 events of this pipeline were accepted, 2 were not"):
            await client.queue(name).send_many([1, 2])


async def test_destinations_are_created_described_listed_and_deleted(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, redelivery_limit=3)
        with pytest.raises(Refused):
            await client.create_queue(name)
        with pytest.raises(BadSetting):
            await client.create_queue(f"{name}-2", redelivery_limit=-1)

        assert name in {each["name"] for each in await client.destinations()}
        assert (await client.describe(name))["redelivery_limit"] == 3
        await client.delete(name)
        with pytest.raises(NoSuchDestination):
            await client.describe(name)


async def test_subscriptions_are_created_listed_and_deleted(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        await client.create_subscription(name, "pager")
        await client.topic(name).send(1)

        assert [each["name"] for each in await client.subscriptions(name)] == ["pager"]
        async with client.subscribe(name, "pager") as incoming:
            await (await incoming.next(timeout=10)).confirm()
        await client.delete_subscription(name, "pager")
        assert await client.subscriptions(name) == []


async def test_what_waits_keeps_a_queue_a_topic_and_a_subscription_from_being_deleted_without_force(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(f"{name}-topic")
        await client.create_subscription(f"{name}-topic", "pager")
        await client.create_subscription(f"{name}-to*", "all")
        await client.topic(f"{name}-topic").send_many([1, 2, 3])
        await client.queue(name).send_many([1, 2])

        with pytest.raises(NotEmpty, match=r"2 events wait in it; .*force=True") as refused:
            await client.delete(name)
        with pytest.raises(NotEmpty, match=r"3 events wait in it \(3 in subscription 'pager'\)"):
            await client.delete(f"{name}-topic")
        with pytest.raises(NotEmpty, match="3 events wait in it"):
            await client.delete_subscription(f"{name}-topic", "pager")
        with pytest.raises(NotEmpty, match="3 events wait in it"):
            await client.delete_subscription(f"{name}-to*", "all")
        assert refused.value.fields["waiting"] == (await client.describe(name))["waiting"] == 2

        await client.delete_subscription(f"{name}-to*", "all", force=True)
        await client.delete_subscription(f"{name}-topic", "pager", force=True)
        await client.delete(f"{name}-topic")
        await client.delete(name, force=True)
        assert not [each for each in await client.destinations() if each["name"].startswith(name)]


async def test_what_is_in_flight_keeps_a_queue_from_being_deleted_without_force(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send(1)
        async with client.queue(name).receive() as incoming:
            event = await incoming.next(timeout=10)
            with pytest.raises(NotEmpty, match="1 event waits in it"):
                await client.delete(name)
            await event.confirm()

        await client.delete(name)


async def test_a_topic_is_not_deleted_under_whoever_owns_a_subscription_of_it(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        async with client.reading(name, "lake").owner():
            with pytest.raises(SubscriptionInUse, match=r"owned by session .* stop that query"):
                await client.delete(name, force=True)

        await client.delete(name)


async def test_deleting_a_queue_ends_its_receivers_with_the_reason(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name)
        with pytest.raises(Refused, match=name):
            async with client.queue(name).receive() as incoming:
                await client.delete(name)
                await incoming.next(timeout=10)


async def test_a_status_is_given(url: str) -> None:
    async with holdfast.connect(url) as client:
        assert isinstance(await client.status(), dict)
        assert (client.is_linked, client.is_blocked, client.blocked_reason) == (True, False, "")
