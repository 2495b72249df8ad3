"""When an event was accepted, over every place a client can find its events at (D2): by the server's clock, not the client's."""

from __future__ import annotations

from datetime import UTC, datetime

import holdfast
import holdfast.blocking
from holdfast.client.receiving.received_event import Received
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]

LONG_AGO = datetime(2001, 2, 3, tzinfo=UTC)


def now() -> datetime:
    return datetime.now(UTC)


def accepted(event: Received) -> datetime:
    assert event.accepted_at is not None
    return event.accepted_at


async def test_an_event_says_when_it_was_accepted_whatever_its_own_time_is(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        before = now()
        await client.queue(name).send(1, time=LONG_AGO)
        after = now()

        event = await incoming.next(timeout=10)

        assert before <= accepted(event) <= after
        assert event.time == LONG_AGO


async def test_a_redelivered_and_a_browsed_event_was_accepted_when_it_was(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(3))
        async with client.queue(name).browse() as events:
            looked = [accepted(event) async for event in events]
        async with client.queue(name).receive() as incoming:
            first = [await incoming.next(timeout=10) for _ in range(3)]
            for event in first:
                await event.release()
            again = [await incoming.next(timeout=10) for _ in range(3)]

        assert [accepted(event) for event in first] == [accepted(event) for event in again] == looked
        assert all(event.redelivered for event in again)


async def test_events_that_are_sent_one_after_the_other_were_accepted_in_that_order(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        for number in range(50):
            await client.queue(name).send(number)

        async with client.queue(name).browse() as events:
            times = [accepted(event) async for event in events]

        assert times == sorted(times)
        assert len(set(times)) == 50


async def test_all_subscriptions_and_wildcards_tell_the_same_time(url: str, name: str) -> None:
    async with (
        holdfast.connect(url) as client,
        client.subscribe(f"{name}.eu") as plain,
        client.subscribe(f"{name}.*") as glob,
    ):
        await client.topic(f"{name}.eu").send(1)

        assert accepted(await plain.next(timeout=10)) == accepted(await glob.next(timeout=10))


async def test_an_event_of_a_transaction_was_accepted_when_its_part_was_and_not_when_it_was_committed(
    url: str, name: str
) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        async with client.transaction() as tx:
            for _ in range(200):  # so much that parts are sent before the commit
                await tx.queue(name).send(bytes(10_000))
            await client.queue(f"{name}-other").send("a round trip after most parts")
            before_commit = now()

        event = await incoming.next(timeout=10)

        assert accepted(event) < before_commit


async def test_a_large_event_says_when_it_was_accepted(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        before = now()
        await client.queue(name).send_stream(bytes(3_000_000))

        event = await incoming.next(timeout=10)

        assert event.is_large
        assert before <= accepted(event) <= now()


async def test_a_dead_event_was_accepted_when_it_was_sent_and_its_replay_when_it_was_replayed(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send("bad")
        event = await incoming.next(timeout=10)
        await event.reject("no")
        await incoming.settled(timeout=10)

        (dead,) = [each for each in await client.dead.list() if each.destination == name]
        await client.dead.replay([dead.position], channel=dead.channel)
        replayed = await incoming.next(timeout=10)

        assert accepted(dead) == accepted(event) < accepted(replayed)


def test_the_plain_twin_tells_it_too(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        before = now()
        client.queue(name).send(1)
        after = now()

        with client.queue(name).browse() as events:
            (looked,) = list(events)
        with client.queue(name).receive() as incoming:
            event = incoming.next(timeout=10)

            assert before <= accepted(event) == accepted(looked) <= after
