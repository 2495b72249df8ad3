"""Sending without waiting, and receiving in the turn in which events come, over every place a client can find its events at:
nothing is lost, doubled or out of order by it."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast.client.receiving.received_batch import ReceivedBatch
from holdfast.errors import BadEvent, BadSetting, Blocked
from tests.contract.places import name, server, url
from tests.waiting import until

__all__ = ["name", "server", "url"]


async def test_events_that_were_begun_are_received_in_order_and_have_their_receipts(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        receipts = [client.queue(name).begin_send(number) for number in range(50)]
        events = [await incoming.next(timeout=20) for _ in range(50)]
        positions = [(await receipt).position for receipt in receipts]
        for event in events:
            await event.confirm()

    assert [event.data for event in events] == list(range(50))
    assert [event.position for event in events] == positions


async def test_what_cannot_be_sent_is_refused_when_it_is_begun_and_what_finds_no_room_is_not_sent(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, events_max=1)
        queue = client.queue(name)

        with pytest.raises(BadEvent):
            queue.begin_send(float("nan"))
        await queue.begin_send(1)
        await until(lambda: queue.is_blocked, "it is full")
        with pytest.raises(Blocked):
            await queue.begin_send(2)


async def test_what_comes_while_a_task_waits_is_taken_at_once_and_all_of_it_in_order(url: str, name: str) -> None:
    taken: list[int] = []
    by_task: list[int] = []

    def take(batch: ReceivedBatch) -> None:
        taken.extend(event.data for event in batch)
        batch.confirm()

    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        incoming.take_at_once(take)

        async def run() -> None:
            async for batch in incoming.batches():
                by_task.extend(event.data for event in batch)
                take(batch)

        running = asyncio.create_task(run())
        for number in range(100):
            await client.queue(name).send(number)
        await until(lambda: len(taken) == 100, "all have come")
        await incoming.settled()
        running.cancel()
        await asyncio.wait((running,))

    assert taken == list(range(100))
    assert len(by_task) < 10
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send("last")
        assert (await incoming.next(timeout=20)).data == "last"  # all others were confirmed


async def test_what_was_delivered_before_is_left_to_the_task(url: str, name: str) -> None:
    at_once: list[str] = []
    async with holdfast.connect(url) as client:
        await client.queue(name).send("again")
        async with client.queue(name).receive() as incoming:
            await (await incoming.next(timeout=20)).release()
        async with client.queue(name).receive() as incoming:
            incoming.take_at_once(lambda batch: at_once.extend(event.data for event in batch))
            async with asyncio.timeout(20):
                batch = await anext(aiter(incoming.batches()))
            await batch.confirm()

            assert [(event.data, event.redelivered) for event in batch] == [("again", True)]
    assert at_once == []


async def test_a_mode_that_confirms_by_itself_hands_out_nothing_at_once(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive(confirm="auto") as incoming:
        with pytest.raises(BadSetting):
            incoming.take_at_once(lambda batch: None)
