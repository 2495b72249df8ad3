"""Looking at what waits without taking it, over every place a client can find its events at (B4: browsers)."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast.client.reading.browser import Browser
from holdfast.errors import BadSelector, BadSetting, Closed, NoSuchDestination, NoSuchSubscription, WrongKind
from tests.contract.places import name, server, url
from tests.contract.test_client_subscriptions import send, take

__all__ = ["name", "server", "url"]


async def seen(browser: Browser) -> list[Any]:
    async with browser as events:
        return [event.data async for event in events]


async def test_a_browser_shows_what_waits_and_takes_nothing(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(5))

        assert await seen(client.queue(name).browse()) == [0, 1, 2, 3, 4]
        assert await seen(client.queue(name).browse()) == [0, 1, 2, 3, 4]

        async with client.queue(name).receive() as incoming:
            events = [await incoming.next(timeout=10) for _ in range(5)]
            assert [(event.data, event.deliveries) for event in events] == [(number, 0) for number in range(5)]


async def test_a_browser_with_a_selector_shows_what_matches(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(holdfast.Event(data=n, properties={"n": n % 10}) for n in range(3000))

        found = await seen(client.queue(name).browse(selector="n IN (3, 4, 7)", page=11))

        assert found == [n for n in range(3000) if n % 10 in (3, 4, 7)]


async def test_a_browser_shows_any_number_of_events_page_by_page(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        for number in range(300):
            await client.queue(name).send(number)

        assert await seen(client.queue(name).browse(page=7)) == list(range(300))


async def test_a_browser_shows_large_events_page_by_page(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        bodies = [bytes([number]) * 700_000 for number in range(5)]
        await client.queue(name).send_many(bodies)

        assert await seen(client.queue(name).browse()) == bodies


async def test_a_browser_shows_the_order_of_placement_and_what_is_in_flight_and_delayed(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        queue = client.queue(name)
        await queue.send(1, priority=1)
        await queue.send(2, priority=9)
        await queue.send(3, delay_ms=60_000)
        async with queue.receive() as incoming:
            held = await incoming.next(timeout=10)

            assert await seen(queue.browse()) == [1, 2, 3]
            await held.release()


async def test_what_was_confirmed_is_not_shown(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive(credit=2) as incoming:
        await client.queue(name).send_many(range(6))
        await take(incoming, 2)

        assert await seen(client.queue(name).browse()) == [2, 3, 4, 5]


async def test_what_is_finished_while_a_browser_looks_is_not_shown_later(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        for number in range(6):
            await client.queue(name).send(number)
        async with client.queue(name).browse(page=2) as events:
            first = await events.next()
            await take(incoming, 4)

            assert first is not None and first.data == 0
            assert [event.data async for event in events] == [1, 4, 5]  # 1 was on the first page


async def test_a_browser_shows_the_deliveries_so_far(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send(1)
        async with client.queue(name).receive() as incoming:
            await (await incoming.next(timeout=10)).release(delay=60)
            await incoming.settled()

        async with client.queue(name).browse() as events:
            event = await events.next()
            assert event is not None and (event.deliveries, event.destination) == (1, name)
            assert not hasattr(event, "confirm")


async def test_a_subscription_is_browsed_like_a_queue(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        await client.create_subscription(name, "audit", selector="n > 0")
        await send(client, name, range(3))

        assert await seen(client.topic(name).browse("audit")) == [1, 2]


async def test_a_wildcard_subscription_is_browsed_and_each_event_says_where_it_was_sent(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_subscription(f"{name}.*", "pager")
        for topic in ("a", "b"):
            await client.topic(f"{name}.{topic}").send(topic)

        async with client.browse(f"{name}.*", "pager") as events:
            assert [(event.destination, event.data) async for event in events] == [(f"{name}.a", "a"), (f"{name}.b", "b")]


async def test_dead_events_are_browsed(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        async with client.queue(name).receive() as incoming:
            await client.queue(name).send(name)
            await (await incoming.next(timeout=10)).reject("no good")

        assert name in await seen(client.queue("_DMQ").browse())


async def test_a_browser_of_an_empty_queue_ends_at_once(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name)

        assert await seen(client.queue(name).browse()) == []


async def test_browsing_what_is_not_there_is_refused(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        with pytest.raises(NoSuchDestination):
            await seen(client.queue(f"{name}-nowhere").browse())
        with pytest.raises(NoSuchSubscription):
            await seen(client.topic(name).browse("nobody"))
        with pytest.raises(NoSuchSubscription):
            await seen(client.browse(f"{name}.*", "nobody"))
        with pytest.raises(WrongKind, match="name the subscription"):
            await seen(client.queue(name).browse())


async def test_a_browser_is_refused_what_makes_no_sense() -> None:
    async with holdfast.connect("memory:") as client:
        with pytest.raises(BadSelector):
            client.queue("q").browse(selector="n >")
        with pytest.raises(BadSetting, match="page"):
            client.queue("q").browse(page=0)
        with pytest.raises(Closed, match="async with"):
            await client.queue("q").browse().next()
