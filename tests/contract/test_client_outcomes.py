"""Outcomes over every place a client can find its events at: a program sees that others have finished (A9)."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
import holdfast.blocking
from holdfast.client.client import Client
from holdfast.client.reading.outcomes import Outcomes
from holdfast.errors import BadSetting, NoSuchSubscription, WrongKind
from holdfast.event.position import Ranges
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]


def at(*positions: int) -> Ranges:
    return Ranges.gather((each, each) for each in positions)


async def sent(client: Client, name: str, count: int, *, is_topic: bool = False) -> list[int]:
    """The positions of so many events, each in a batch of its own."""
    destination = client.topic(name) if is_topic else client.queue(name)
    return [(await destination.send(number)).position for number in range(count)]


async def test_a_position_waits_until_it_is_confirmed_released_events_wait_and_rejected_ones_are_dead(
    url: str, name: str
) -> None:
    async with holdfast.connect(url) as client:
        first, second, third, fourth = await sent(client, name, 4)
        asked = at(first, second, third, fourth)
        assert (await client.outcomes(name, asked)).waiting == asked

        async with client.queue(name).receive(credit=4) as incoming:
            for verdict in ("confirm", "release", "reject", ""):
                event = await incoming.next(timeout=10)
                if verdict == "confirm":
                    event.confirm()
                elif verdict == "release":
                    event.release(60)
                elif verdict == "reject":
                    event.reject("no such article")
            await incoming.settled()
            found = await client.outcomes(name, asked)

        assert found.waiting == at(second, fourth)
        assert found.confirmed == at(first)
        assert found.dead == ((at(third), "rejected", "no such article", ""),)
        assert found.nobody == Ranges() and found.counting == 1 and found.identity == ""
        assert found.finished == at(first, third) and found.up_to == first


async def test_an_event_of_a_topic_is_finished_when_all_durable_subscriptions_have_finished_it(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        await client.create_subscription(name, "one")
        await client.create_subscription(name, "two")
        async with client.subscribe(name):  # not durable: does not count
            (position,) = await sent(client, name, 1, is_topic=True)
            await client.create_subscription(name, "late")
            assert (await client.outcomes(name, at(position))).waiting == at(position)
            async with client.subscribe(name, "one") as incoming:
                (await incoming.next(timeout=10)).confirm()
            assert (await client.outcomes(name, at(position))).waiting == at(position)
            assert (await client.outcomes(name, at(position), subscription="one")).confirmed == at(position)
            assert (await client.outcomes(name, at(position), subscription="late")).nobody == at(position)

            async with client.subscribe(name, "two") as incoming:
                (await incoming.next(timeout=10)).reject("not mine")

            found = await client.outcomes(name, at(position))
            assert found.dead == ((at(position), "rejected", "not mine", "two"),) and found.counting == 3
            assert (await client.outcomes(name, at(position), subscription="one")).confirmed == at(position)


async def test_the_subscription_of_a_pattern_counts_for_each_topic_it_matches(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_subscription(f"{name}.*", "pager")
        topic = f"{name}.eu"
        (position,) = await sent(client, topic, 1, is_topic=True)
        assert (await client.outcomes(topic, at(position))).waiting == at(position)
        assert (await client.outcomes(f"{name}.*", at(position), subscription="pager")).waiting == at(position)

        async with client.subscribe(f"{name}.*", "pager") as incoming:
            (await incoming.next(timeout=10)).confirm()

        assert (await client.outcomes(topic, at(position))).confirmed == at(position)
        with pytest.raises(BadSetting, match="subscription"):
            await client.outcomes(f"{name}.*", at(position))
        await client.delete_subscription(f"{name}.*", "pager")


async def test_a_topic_without_durable_subscriptions_has_nobody_who_counts(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        (position,) = await sent(client, name, 1, is_topic=True)
        found = await client.outcomes(name, at(position), wait=10)
        assert found.nobody == at(position) and found.counting == 0

        await client.create_subscription(name, "late")
        assert (await client.outcomes(name, at(position))).nobody == at(position)
        assert (await client.outcomes(f"{name}-nowhere", at(position))).nobody == at(position)


async def test_who_waits_is_told_as_soon_as_something_is_finished_and_not_before(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, holdfast.connect(url) as other:
        first, second = await sent(client, name, 2)
        waiting = asyncio.create_task(client.outcomes(name, at(first, second), wait=60))

        async with other.queue(name).receive() as incoming:
            (await incoming.next(timeout=10)).confirm()
            await incoming.settled()
            found = await waiting

            assert (found.confirmed, found.waiting) == (at(first), at(second))
            waiting = asyncio.create_task(client.outcomes(name, found.waiting, wait=60))
            (await incoming.next(timeout=10)).reject("broken")
            assert [each.code for each in (await waiting).dead] == ["rejected"]
        assert (await client.outcomes(name, at(second), wait=60)).waiting == Ranges()


async def test_who_waits_longer_than_it_takes_is_told_what_there_is(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        (position,) = await sent(client, name, 1)
        found = await client.outcomes(name, at(position), wait=0.05)
        assert found.waiting == at(position) and found.up_to == 0


async def test_events_of_a_deleted_subscription_are_finished_and_those_of_a_deleted_queue_are_dead(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        await client.create_subscription(name, "one")
        (position,) = await sent(client, name, 1, is_topic=True)
        waiting = asyncio.create_task(client.outcomes(name, at(position), wait=60))
        named = asyncio.create_task(client.outcomes(name, at(position), subscription="one", wait=60))
        await client.delete_subscription(name, "one", force=True)
        assert (await waiting).nobody == at(position)
        with pytest.raises(NoSuchSubscription):
            await named

        queue = f"{name}-queue"
        (position,) = await sent(client, queue, 1)
        waiting = asyncio.create_task(client.outcomes(queue, at(position), wait=60))
        await client.delete(queue, force=True)
        assert [each.code for each in (await waiting).dead] == ["deleted"]


async def test_an_expired_event_is_told_as_dead_to_who_waits(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        receipt = await client.queue(name).send("short", ttl_ms=50)
        found = await client.outcomes(name, at(receipt.position), wait=60)
        assert [(each.code, each.ranges) for each in found.dead] == [("expired", at(receipt.position))]


async def test_a_dead_event_that_was_purged_was_dealt_with_and_counts_as_confirmed(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        (position,) = await sent(client, name, 1)
        async with client.queue(name).receive() as incoming:
            (await incoming.next(timeout=10)).reject("broken")
        await client.dead.purge(queue=name)
        assert (await client.outcomes(name, at(position))).confirmed == at(position)


async def test_many_ranges_are_asked_about_in_parts_and_answered_as_one(
    url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.client.reading.outcomes.ASKED_MAX", 3)
    async with holdfast.connect(url) as client:
        positions = await sent(client, name, 10)
        async with client.queue(name).receive(credit=10) as incoming:
            for number in range(10):
                event = await incoming.next(timeout=10)
                if number % 3 == 0:
                    event.confirm()
                elif number % 3 == 1:
                    event.reject(f"number {number}")
            await incoming.settled()
            found = await client.outcomes(name, at(*positions), wait=60)

        assert found.confirmed == at(*positions[::3])
        assert [(each.ranges, each.reason) for each in found.dead] == [
            (at(positions[number]), f"number {number}") for number in (1, 4, 7)
        ]
        assert found.waiting == at(*positions[2::3])


async def test_a_subscription_that_was_made_again_has_another_identity(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        await client.create_subscription(name, "one")
        first = await client.outcomes(name, [], subscription="one")
        assert first.identity.partition(":")[0] and first.identity.startswith(f"{client.incarnation}:")
        await client.delete_subscription(name, "one")
        await client.create_subscription(name, "one")
        again = await client.outcomes(name, [], subscription="one")
        assert again.identity != first.identity
        assert (await client.reading(name, "one").extent()).identity == again.identity


async def test_wrong_questions_are_refused(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name)
        with pytest.raises(BadSetting, match="pairs"):
            await client.outcomes(name, [(7, 3)])
        with pytest.raises(BadSetting, match="wait"):
            await client.outcomes(name, [], wait=-1)
        with pytest.raises(WrongKind, match="queue"):
            await client.outcomes(name, [], subscription="one")


def test_the_blocking_twin_is_told_the_same(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        position = client.queue(name).send("one").position
        assert client.incarnation
        found: Outcomes = client.outcomes(name, [(position, position)])
        assert found.waiting == at(position)
        with client.queue(name).receive() as incoming:
            incoming.next(timeout=10).confirm()
        assert client.outcomes(name, [(position, position)], wait=10).confirmed == at(position)
