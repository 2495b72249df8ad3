"""Flow control by destination, over every place a client can find its events at (B12)."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast.client.client import Client
from holdfast.errors import BadSetting, Blocked, TimedOut
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]

HIGH = 10


async def filled(client: Client, name: str, **settings: int) -> None:
    """A queue at its high water, and the client has been told."""
    await client.create_queue(name, **{"events_max": HIGH, **settings})
    queue = client.queue(name)
    for number in range(HIGH):
        await queue.send(number)
    await until_blocked(client, queue)


async def until_blocked(client: Client, destination: holdfast.Queue | holdfast.Topic) -> None:
    """Until this client was told; asking is a round trip, so that others have their turn."""
    async with asyncio.timeout(10):
        while not destination.is_blocked:
            await client.status()


async def drain(client: Client, name: str, count: int) -> list[int]:
    taken = []
    async with client.queue(name).receive() as incoming:
        for _ in range(count):
            event = await incoming.next(timeout=10)
            taken.append(event.data)
            await event.confirm()
    return taken


async def test_one_blocked_destination_does_not_block_another_on_the_same_connection_b12(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await filled(client, name)
        held_back = asyncio.ensure_future(client.queue(name).send("held back", timeout=10))

        receipts = [await client.queue(name + ".other").send(number) for number in range(100)]

        assert len(receipts) == 100
        assert not held_back.done()
        assert await drain(client, name, HIGH) == list(range(HIGH))
        await held_back


async def test_a_send_to_a_blocked_destination_that_stays_blocked_ends_as_blocked_and_sends_nothing(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await filled(client, name)

        with pytest.raises(Blocked, match=r"is full \(10 events wait, the high water is 10\) and took nothing more"):
            await client.queue(name).send("too many", timeout=0.1)

        assert (await client.describe(name))["waiting"] == HIGH


async def test_try_send_is_refused_at_once_while_the_destination_is_blocked_and_not_before(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, events_max=HIGH)
        queue = client.queue(name)
        receipts = [await queue.try_send(number) for number in range(HIGH)]
        await until_blocked(client, queue)

        with pytest.raises(Blocked, match="this was not accepted"):
            await queue.try_send("one more")

        assert len({receipt.position for receipt in receipts}) == HIGH
        assert (await client.describe(name))["waiting"] == HIGH


async def test_whoever_comes_to_a_blocked_destination_is_refused_at_its_first_send(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await filled(client, name)
        async with client.session() as newcomer:
            with pytest.raises(Blocked, match="is full"):
                await newcomer.queue(name).try_send("too many")

            assert newcomer.queue(name).is_blocked
            assert (await client.describe(name))["waiting"] == HIGH


async def test_a_destination_is_unblocked_at_its_low_water_not_before(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await filled(client, name, low_percent=50)

        await drain(client, name, HIGH // 2 - 1)
        with pytest.raises(TimedOut, match="still full"):
            await client.queue(name).unblocked(timeout=0.05)
        await drain(client, name, 1)
        await client.queue(name).unblocked(timeout=10)

        assert not client.queue(name).is_blocked
        assert not (await client.describe(name))["is_blocked"]


async def test_what_is_held_back_arrives_in_its_order_once_there_is_room(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, events_max=50, low_percent=20)
        numbers = list(range(2_000))

        async def send() -> None:
            async with client.queue(name).pipeline(timeout=30) as pipeline:
                for number in numbers:
                    await pipeline.send({"n": number, "filling": "x" * 500})

        async with client.queue(name).receive(timeout=30) as incoming:
            sending = asyncio.ensure_future(send())
            taken = []
            for _ in numbers:
                event = await incoming.next()
                taken.append(event.data["n"])
                await event.confirm()
            await sending

        assert taken == numbers


async def test_many_producers_at_a_full_destination_lose_nothing_and_keep_their_order_each(url: str, name: str) -> None:
    """The backstop: what was under way when the destination became full is refused, and sent again by the client."""
    async with holdfast.connect(url) as client:
        await client.create_queue(name, events_max=20, low_percent=50)
        queue = client.queue(name)

        async def produce(who: int, other: Client) -> None:
            futures = [asyncio.ensure_future(other.queue(name).send([who, n, "x" * 70_000], timeout=60)) for n in range(60)]
            await asyncio.gather(*futures)

        others = [client] * 3 if url.startswith("file:") else [await holdfast.connect(url).open() for _ in range(3)]
        producing = asyncio.gather(*(produce(who, other) for who, other in enumerate(others)))
        taken: list[list[int]] = [[], [], []]
        async with queue.receive(timeout=60, credit=5) as incoming:
            for _ in range(180):
                event = await incoming.next()
                taken[event.data[0]].append(event.data[1])
                await event.confirm()
        await producing
        for other in others:
            if other is not client:
                await other.close()

        if url.startswith("file:"):
            assert [sorted(each) for each in taken] == [list(range(60))] * 3
        else:
            assert taken == [list(range(60))] * 3


async def test_a_topic_is_as_full_as_the_fullest_of_its_subscriptions(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name, events_max=3)
        topic = client.topic(name)
        async with topic.subscribe() as quick:
            await client.create_subscription(name, "slow")
            for number in range(3):
                await topic.send(number)
                await (await quick.next(timeout=10)).confirm()
            await quick.settled()

            await until_blocked(client, topic)
            async with topic.subscribe("slow") as slow:
                for _ in range(3):
                    await (await slow.next(timeout=10)).confirm()
                await topic.unblocked(timeout=10)


async def test_a_high_water_in_bytes_blocks_too(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, bytes_max=10_000)
        queue = client.queue(name)
        await queue.send("x" * 11_000)
        await until_blocked(client, queue)

        with pytest.raises(Blocked, match="bytes wait, the high water is 10,000"):
            await queue.try_send("more")
        await drain(client, name, 1)
        await queue.unblocked(timeout=10)


async def test_a_limit_that_is_taken_away_unblocks_and_what_is_not_named_stays(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await filled(client, name, redelivery_limit=3)

        await client.configure(name, events_max=0, redelivery_delay=1.5)
        await client.queue(name).unblocked(timeout=10)

        found = await client.describe(name)
        assert (found["redelivery_limit"], found["redelivery_delay"], found["events_max"]) == (3, 1.5, 0)
        await client.queue(name).send("goes", timeout=10)


async def test_a_pipeline_left_while_its_destination_is_blocked_says_how_many_were_accepted(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await filled(client, name)

        with pytest.raises(Blocked, match="0 events of this pipeline were accepted, 5 were not"):
            async with client.queue(name).pipeline(timeout=0.1) as pipeline:
                for number in range(5):
                    await pipeline.send(number)

        assert (await client.describe(name))["waiting"] == HIGH


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"events_max": -1}, "events_max -1 is not a number of events"),
        ({"low_percent": 0}, "low_percent 0 is not a share"),
        ({"redelivery_factor": 0}, "redelivery_factor 0 is not a whole number"),
        ({"redelivery_delay": -1}, "a delay of -1 s is not possible"),
        ({"colour": "red"}, "there is no setting 'colour'; there are: redelivery_limit"),
    ],
)
async def test_a_setting_that_is_none_is_refused_with_what_to_do(given: dict[str, int], said: str) -> None:
    async with holdfast.connect("memory:") as client:
        await client.create_queue("q")
        for refused in (client.create_queue("other", **given), client.configure("q", **given)):
            with pytest.raises(BadSetting, match=said):
                await refused


async def test_configuring_nothing_and_what_is_not_there_are_refused() -> None:
    async with holdfast.connect("memory:") as client:
        with pytest.raises(BadSetting, match="nothing to change was given"):
            await client.configure("q")
        with pytest.raises(holdfast.errors.NoSuchDestination, match="there is no destination 'q'"):
            await client.configure("q", events_max=1)
        with pytest.raises(holdfast.errors.BadName, match="reserved"):
            await client.configure("_DMQ", events_max=1)


async def test_a_lowered_redelivery_limit_holds_for_what_is_delivered_already(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name)
        async with client.queue(name).receive() as incoming:
            await client.queue(name).send("again and again")
            for _ in range(2):
                await (await incoming.next(timeout=10)).release()
            event = await incoming.next(timeout=10)

            await client.configure(name, redelivery_limit=1)
            await event.release()
            await incoming.settled()

            with pytest.raises(TimedOut):
                await incoming.next(timeout=0.2)
        assert (await client.describe(name))["waiting"] == 0
