"""The client over every place it can find its events at (E1): sending and receiving."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

import holdfast
from holdfast.client.client import Client
from holdfast.client.receiving.incoming import Incoming
from holdfast.errors import BadSetting, Closed, TimedOut
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]


async def take(incoming: Incoming, count: int) -> list[holdfast.ReceivedEvent]:
    return [await incoming.next(timeout=10) for _ in range(count)]


async def is_empty(client: Client, queue: str) -> bool:
    return bool((await client.describe(queue))["waiting"] == 0)


async def test_what_is_sent_is_received_with_all_its_attributes(url: str, name: str) -> None:
    moment = datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC)
    fields: dict[str, Any] = {
        "type": "order.placed", "source": "shop", "id": "o-1", "time": moment, "subject": "sku/7",
        "dataschema": "urn:order", "properties": {"amount": 120, "is_gift": False},
        "priority": 7, "group": "g", "correlation_id": "c",
        "reply_to": "answers",
    }  # fmt: skip
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        receipt = await client.queue(name).send({"sku": 7}, **fields)

        event = await incoming.next(timeout=10)

        assert {field: getattr(event, field) for field in fields} == fields
        assert event.data == {"sku": 7}
        assert (event.id, event.position) == (receipt.id, receipt.position)
        assert (event.destination, event.deliveries, event.redelivered) == (name, 0, False)
        await event.confirm()


@pytest.mark.parametrize("data", [b"\x00\xff", "grüße", {"a": [1, None]}, [], 7, None, True])
async def test_data_arrives_as_it_was_sent(data: Any) -> None:
    async with holdfast.connect("memory:", name="tester") as client, client.queue("q").receive() as incoming:
        await client.queue("q").send(data)

        event = await incoming.next(timeout=10)

        assert event.data == data
        assert event.source == "tester"
        assert abs((datetime.now(UTC) - event.time).total_seconds()) < 60


async def test_an_event_object_is_sent_as_it_is_and_fields_beside_it_win(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send(holdfast.Event(data=1, type="a", subject="s"), type="b")

        event = await incoming.next(timeout=10)

        assert (event.data, event.type, event.subject) == (1, "b", "s")


async def test_a_receipt_says_where_the_event_is_and_ids_count_up(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        first = await client.queue(name).send(1)
        second = await client.queue(name).send(2)

        assert 0 < first.position < second.position
        assert first.copies == second.copies == 1
        assert first.id < second.id


async def test_a_pipeline_keeps_the_order_and_has_a_receipt_for_each(url: str, name: str) -> None:
    count = 3000
    async with holdfast.connect(url) as client:
        async with client.queue(name).pipeline() as pipeline:
            for number in range(count):
                await pipeline.send(b"%d" % number)
        async with client.queue(name).receive() as incoming:
            events = await take(incoming, count)

            assert [int(event.data) for event in events] == list(range(count))
            assert [receipt.position for receipt in pipeline.receipts] == [event.position for event in events]
            assert [receipt.id for receipt in pipeline.receipts] == [event.id for event in events]


async def test_a_batch_has_one_priority_and_one_delay_and_the_order_within_one_stays(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        receipts = await client.queue(name).send_many(
            [holdfast.Event(data=number, priority=4 + number % 2) for number in range(6)] + [b"plain", b"plain"]
        )
        async with client.queue(name).receive() as incoming:
            events = await take(incoming, 8)

    assert len(receipts) == 8
    assert [event.priority for event in events] == [5, 5, 5, 4, 4, 4, 4, 4]
    assert [event.data for event in events] == [1, 3, 5, 0, 2, 4, b"plain", b"plain"]


async def test_many_concurrent_sends_share_batches_and_each_gets_its_own_receipt(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        receipts = await asyncio.gather(*(client.queue(name).send(number, id=f"e{number}") for number in range(300)))

        assert [receipt.id for receipt in receipts] == [f"e{number}" for number in range(300)]
        assert len({receipt.position for receipt in receipts}) == 300


async def test_confirmed_events_are_gone_when_settled_says_so(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send_many(range(700))
        for event in await take(incoming, 700):
            await event.confirm()

        await incoming.settled(timeout=10)

        assert await is_empty(client, name)


async def test_a_confirm_travels_by_itself_although_nobody_asks_for_more(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send(1)
        await (await incoming.next(timeout=10)).confirm()

        async with asyncio.timeout(10):
            while not await is_empty(client, name):
                pass


async def test_only_what_was_confirmed_is_gone_when_every_second_event_is(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        async with client.queue(name).pipeline() as pipeline:
            for number in range(50):
                await pipeline.send(number)
                if number % 10 == 0:
                    await pipeline.flush()
        async with client.queue(name).receive() as incoming:
            for event in (await take(incoming, 50))[::2]:
                await event.confirm()

        async with client.queue(name).receive() as incoming:
            left = await take(incoming, 25)

            assert sorted(event.data for event in left) == list(range(1, 50, 2))


async def test_what_was_looked_at_and_not_confirmed_comes_again_as_redelivered(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(["seen", "unseen"])
        async with client.queue(name).receive() as incoming:
            assert (await incoming.next(timeout=10)).data == "seen"

        async with client.queue(name).receive() as incoming:
            again = {event.data: event.deliveries for event in await take(incoming, 2)}

            assert again == {"seen": 1, "unseen": 0}


async def test_a_released_event_comes_again_not_before_its_delay(url: str, name: str) -> None:
    loop = asyncio.get_running_loop()
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send(1)
        await (await incoming.next(timeout=10)).release(delay=0.3)
        await incoming.settled(timeout=10)
        released = loop.time()

        again = await incoming.next(timeout=10)

        assert loop.time() - released > 0.2
        assert (again.deliveries, again.redelivered) == (1, True)


async def test_a_reject_with_a_code_that_is_none_is_refused_and_the_event_can_still_be_decided(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send("x")
        event = await incoming.next(timeout=10)

        with pytest.raises(BadSetting, match="no event dies of 'weird'"):
            event.reject("why", code="weird")  # type: ignore[arg-type]

        await event.confirm()


async def test_a_rejected_event_goes_to_the_dead_events(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send("bad", subject=name)
        async with client.queue(name).receive() as incoming:
            await (await incoming.next(timeout=10)).reject("cannot be read")
        async with client.queue("_DMQ").receive() as dead:
            event = await dead.next(timeout=10)

            assert (event.data, event.subject) == ("bad", name)
            await event.confirm()

        assert await is_empty(client, name)


async def test_an_event_that_is_delivered_too_often_goes_to_the_dead_events(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, redelivery_limit=2)
        await client.queue(name).send("poison", subject=name)
        async with client.queue(name).receive() as incoming:
            for _ in range(3):
                await (await incoming.next(timeout=10)).release()

        async with client.queue("_DMQ").receive() as dead:
            event = await dead.next(timeout=10)
            assert event.subject == name
            await event.confirm()


async def test_competing_recipients_share_a_queue_and_nothing_is_handed_to_two(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(100))
        async with client.queue(name).receive(credit=10) as one, client.queue(name).receive(credit=10) as other:
            seen = [event.data for event in await take(one, 10) + await take(other, 10)]

            assert len(set(seen)) == 20


async def test_a_small_credit_is_granted_again_as_events_are_used(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(50))
        async with client.queue(name).receive(credit=1, credit_bytes=1) as incoming:
            assert [event.data for event in await take(incoming, 50)] == list(range(50))


async def test_a_durable_subscription_remembers_and_a_nameless_one_begins_now(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        async with client.subscribe(name, "pager"):
            pass
        await client.topic(name).send("early")
        async with client.subscribe(name, "pager") as durable, client.subscribe(name) as passing:
            await client.topic(name).send("late")

            assert [event.data for event in await take(durable, 2)] == ["early", "late"]
            assert [event.data for event in await take(passing, 1)] == ["late"]


async def test_iteration_ends_when_the_receiver_is_closed(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(3))
        seen = []
        async with client.queue(name).receive() as incoming:
            async for event in incoming:
                seen.append(event.data)
                await event.confirm()
                if len(seen) == 3:
                    await incoming.close()

        assert seen == [0, 1, 2]
        with pytest.raises(Closed):
            await incoming.next()


async def test_waiting_for_an_event_has_a_timeout(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive(timeout=0.02) as incoming:
        with pytest.raises(TimedOut, match=r"within 0\.01 s"):
            await incoming.next(timeout=0.01)
        with pytest.raises(TimedOut, match=r"within 0\.02 s"):
            async for _ in incoming:
                pass
