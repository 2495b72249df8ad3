"""Priority, time to live, delay, groups and selectors as a program sees them, over every place it can find its events at (E1)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time

import pytest

import holdfast
import holdfast.blocking
from holdfast.client.client import Client
from holdfast.client.receiving.incoming import Incoming
from holdfast.errors import BadSelector, TimedOut
from tests.contract.places import name, server, url
from tests.waiting import until

__all__ = ["name", "server", "url"]


async def take(incoming: Incoming, count: int) -> list[holdfast.ReceivedEvent]:
    return [await incoming.next(timeout=10) for _ in range(count)]


async def nothing_comes(incoming: Incoming) -> bool:
    try:
        await incoming.next(timeout=0.1)
    except TimedOut:
        return True
    return False


async def until_waiting(client: Client, queue: str, waiting: int) -> None:
    async def is_so() -> bool:
        return bool((await client.describe(queue))["waiting"] == waiting)

    await until(is_so, f"{waiting} events wait in {queue}")


async def test_messages_of_higher_priority_are_delivered_first_and_in_order_within_one(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        queue = client.queue(name)
        for number, priority in enumerate([4, 0, 9, 4, 9, 0]):
            await queue.send(number, priority=priority)
        async with queue.receive() as incoming:
            assert [event.data for event in await take(incoming, 6)] == [2, 4, 0, 3, 1, 5]


async def test_what_comes_back_goes_before_its_own_priority_and_not_before_a_higher_one(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        queue = client.queue(name)
        for number, priority in enumerate([4, 4, 9]):
            await queue.send(number, priority=priority)
        async with queue.receive(credit=2) as incoming:
            first, second = await take(incoming, 2)
            assert [first.data, second.data] == [2, 0]
            await second.release(delay=0)
            await first.confirm()
        await queue.send(3, priority=9)
        async with queue.receive() as incoming:
            assert [event.data for event in await take(incoming, 3)] == [3, 0, 1]


async def test_a_message_is_not_delivered_before_its_delivery_delay_has_passed(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        sent = time.time()
        await client.queue(name).send("later", delay_ms=300)
        await client.queue(name).send("now")

        first, second = await take(incoming, 2)

        assert [first.data, second.data] == ["now", "later"]
        assert time.time() - sent >= 0.29


async def test_an_expired_message_is_not_delivered_and_the_rest_of_its_batch_is(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        queue = client.queue(name)
        await queue.send_many([holdfast.Event(data=number, ttl_ms=1 if number % 3 == 1 else None) for number in range(10)])
        sent = time.time()
        await until(lambda: time.time() > sent + 0.01, "they have expired")
        async with queue.receive() as incoming:
            events = await take(incoming, 7)
            assert [event.data for event in events] == [0, 2, 3, 5, 6, 8, 9]
            assert await nothing_comes(incoming)
            for event in events:
                await event.confirm()
        await until_waiting(client, name, 0)


async def test_confirming_around_an_expired_message_does_not_confirm_it(url: str, name: str) -> None:
    """It goes to the dead queue, with its reason, although the range of those around it would span it."""
    async with holdfast.connect(url) as client:
        queue = client.queue(name)
        marks = {"mark": name}
        await queue.send_many(
            [holdfast.Event(data=number, properties=marks, ttl_ms=1 if number == 1 else None) for number in range(3)]
        )
        sent = time.time()
        await until(lambda: time.time() > sent + 0.01, "they have expired")
        async with queue.receive() as incoming:
            for event in await take(incoming, 2):
                await event.confirm()
        async with client.queue("_DMQ").receive(selector=f"mark = '{name}'") as dead:
            event = await dead.next(timeout=10)
            assert event.data == 1
            assert [death.code for death in event.dead] == ["expired"]
            await event.confirm()


async def test_messages_that_nobody_receives_expire_too(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many([holdfast.Event(data=number, ttl_ms=50) for number in range(20)])
        await client.queue(name).send("stays")

        await until_waiting(client, name, 1)


async def test_the_messages_of_a_group_go_to_one_consumer_in_order(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        queue = client.queue(name)
        async with queue.receive(credit=50) as one, queue.receive(credit=50) as two:
            await queue.send_many([holdfast.Event(data=number, group=f"g{number % 4}") for number in range(40)])
            seen: dict[int, list[holdfast.ReceivedEvent]] = {}
            async with asyncio.timeout(60):
                while sum(map(len, seen.values())) < 40:
                    for number, incoming in enumerate((one, two)):
                        with contextlib.suppress(TimedOut):
                            seen.setdefault(number, []).append(await incoming.next(timeout=0.05))

        groups = [{event.group for event in events} for events in seen.values()]
        assert sum(map(len, groups)) == 4 and all(groups), "each group has one receiver, and both have some"
        for events in seen.values():
            for group in {event.group for event in events}:
                numbers = [event.data for event in events if event.group == group]
                assert numbers == sorted(numbers)


async def test_a_group_goes_to_another_consumer_when_its_own_is_gone(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        queue = client.queue(name)
        async with queue.receive() as second:
            async with queue.receive() as first:
                await queue.send_many([holdfast.Event(data=number, group="only") for number in range(3)])
                got = await asyncio.gather(first.next(timeout=0.5), second.next(timeout=0.5), return_exceptions=True)
                holder, other = (first, second) if isinstance(got[1], TimedOut) else (second, first)
                assert await nothing_comes(other)
            if holder is first:
                assert [event.data for event in await take(second, 3)] == [0, 1, 2]


async def test_a_receiver_with_a_selector_gets_what_matches_and_the_rest_waits_for_others(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        queue = client.queue(name)
        await queue.send_many([holdfast.Event(data=number, properties={"amount": number}) for number in range(100)])
        async with queue.receive(selector="amount >= 90") as incoming:
            events = await take(incoming, 10)
            assert [event.data for event in events] == list(range(90, 100))
            for event in events:
                await event.confirm()
            assert await nothing_comes(incoming)
            await queue.send(7, properties={"amount": 95})
            await (await incoming.next(timeout=10)).confirm()
        async with queue.receive() as incoming:
            assert [event.data for event in await take(incoming, 90)] == list(range(90))


async def test_a_message_that_no_selector_matches_is_kept(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive(selector="region = 'eu'") as incoming:
        await client.queue(name).send(1, properties={"region": "us"})
        assert await nothing_comes(incoming)
        assert (await client.describe(name))["waiting"] == 1


async def test_what_a_selecting_receiver_gives_back_is_looked_at_again_by_all(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        queue = client.queue(name)
        await queue.send(1, properties={"amount": 5})
        async with queue.receive(selector="amount > 1") as one:
            await (await one.next(timeout=10)).release()
        async with queue.receive(selector="amount < 10") as two:
            event = await two.next(timeout=10)
            assert (event.data, event.redelivered) == (1, True)


@pytest.mark.parametrize("selector", ["amount >", "amount LIKE 5", "NOT"])
async def test_a_wrong_selector_is_refused_with_the_place(url: str, name: str, selector: str) -> None:
    async with holdfast.connect(url) as client:
        with pytest.raises(BadSelector):
            async with client.queue(name).receive(selector=selector):
                pass


async def test_a_released_message_waits_as_long_as_the_redelivery_delay_says(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, redelivery_delay=0.2, redelivery_factor=2)
        async with client.queue(name).receive() as incoming:
            await client.queue(name).send(1)
            waits = []
            for _ in range(3):
                event = await incoming.next(timeout=10)
                waits.append(time.monotonic())
                await event.release()
            await incoming.next(timeout=10)
            waits.append(time.monotonic())

        gaps = [later - earlier for earlier, later in itertools.pairwise(waits)]
        assert [gap >= least for gap, least in zip(gaps, (0.19, 0.39, 0.79), strict=True)] == [True] * 3


def test_the_blocking_twin_selects_orders_and_delays_alike(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        queue = client.queue(name)
        queue.send("low", priority=1, properties={"wanted": True})
        queue.send("unwanted", priority=9)
        queue.send("high", priority=9, properties={"wanted": True}, group="g")
        queue.send("late", priority=9, properties={"wanted": True}, delay_ms=50)
        with queue.receive(selector="wanted") as incoming:
            seen = []
            for _ in range(3):
                event = incoming.next(timeout=10)
                seen.append(event.data)
                event.confirm()
        assert sorted(seen) == ["high", "late", "low"] and seen.index("high") < seen.index("low")
        assert client.describe(name)["waiting"] == 1
