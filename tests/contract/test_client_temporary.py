"""Temporary destinations, requests and their replies, over every place a client can find its events at (B4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import holdfast
from holdfast.client.client import Client
from holdfast.errors import AccessDenied, BadEvent, NoReply, NoSuchDestination, Refused
from tests.contract.places import name, server, url
from tests.contract.test_client_subscriptions import take
from tests.waiting import turn_loop

__all__ = ["name", "server", "url"]


async def until_empty(client: Client, queue: str) -> None:
    """A confirm travels by itself, a little later."""
    async with asyncio.timeout(10):
        while (await client.describe(queue))["waiting"]:
            pass


@asynccontextmanager
async def answering(client: Client, queue: str) -> AsyncIterator[None]:
    """Whoever asks this queue is answered with twice what was asked."""

    async def answer() -> None:
        async with client.queue(queue).receive() as incoming:
            async for event in incoming:
                await event.reply(event.data * 2)
                await event.confirm()

    task = asyncio.create_task(answer())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_temporary_queue_is_named_by_the_server_and_received_from_by_its_client(url: str) -> None:
    async with holdfast.connect(url) as client:
        queue = await client.temporary_queue()
        await queue.send(1)

        async with queue.receive() as incoming:
            assert await take(incoming, 1) == [1]
        assert queue.name.startswith("_temporary.")


async def test_every_session_of_its_client_receives_from_a_temporary_queue(url: str) -> None:
    async with holdfast.connect(url) as client, client.session() as session:
        queue = await client.temporary_queue()
        await queue.send(1)

        async with session.queue(queue.name).receive() as incoming:
            assert await take(incoming, 1) == [1]


async def test_another_client_sends_to_a_temporary_queue_and_does_not_receive_from_it() -> None:
    async with holdfast.connect("memory:others") as mine, holdfast.connect("memory:others") as other:
        queue = await mine.temporary_queue()
        await other.queue(queue.name).send(1)

        with pytest.raises(AccessDenied, match="the client that made it"):
            await other.queue(queue.name).receive().open()
        with pytest.raises(AccessDenied, match="belongs to another client"):
            await other.delete(queue.name)


async def test_a_temporary_topic_gives_to_the_subscriptions_of_its_client(url: str) -> None:
    async with holdfast.connect(url) as client:
        topic = await client.temporary_topic()
        async with topic.subscribe() as first, topic.subscribe(selector="n = 2") as second:
            for n in (1, 2):
                await topic.send(n, properties={"n": n})

            assert await take(first, 2) == [1, 2]
            assert await take(second, 1) == [2]


async def test_a_temporary_topic_has_no_durable_subscription(url: str) -> None:
    async with holdfast.connect(url) as client:
        topic = await client.temporary_topic()

        with pytest.raises(Refused, match="leave the name out"):
            await topic.subscribe("audit").open()


async def test_a_temporary_destination_is_gone_with_its_client_and_what_is_sent_to_it_is_refused() -> None:
    async with holdfast.connect("memory:gone") as client:
        async with holdfast.connect("memory:gone") as passing:
            names = [(await passing.temporary_queue()).name, (await passing.temporary_topic()).name]
            await client.queue(names[0]).send(1)

        with pytest.raises(NoSuchDestination, match="gone"):
            await client.queue(names[0]).send(2)
        with pytest.raises(NoSuchDestination, match="gone"):
            await client.topic(names[1]).send(2)
        assert [each["name"] for each in await client.destinations() if each["name"] in names] == []
        assert (await client.describe("_DMQ"))["waiting"] == 0


async def test_a_temporary_queue_is_deleted_by_its_client_when_nobody_receives(url: str) -> None:
    async with holdfast.connect(url) as client:
        queue = await client.temporary_queue()
        async with queue.receive():
            with pytest.raises(Refused, match="close them first"):
                await client.delete(queue.name)

        await client.delete(queue.name)

        with pytest.raises(NoSuchDestination):
            await queue.send(1)


async def test_a_request_is_answered_by_its_reply(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, answering(client, name):
        reply = await client.queue(name).request(21, timeout=10, type="question")

        assert reply.data == 42
        await until_empty(client, reply.destination)


async def test_each_of_many_concurrent_requests_gets_its_own_reply(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, answering(client, name):
        replies = await asyncio.gather(*(client.queue(name).request(number, timeout=30) for number in range(100)))

        assert [reply.data for reply in replies] == [2 * number for number in range(100)]
        assert len({reply.destination for reply in replies}) == 1


async def test_a_reply_has_the_correlation_id_of_its_request(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, answering(client, name):
        assert (await client.queue(name).request(1, timeout=10, correlation_id="mine")).correlation_id == "mine"


async def test_a_reply_to_an_event_without_correlation_id_has_the_id_of_the_event(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, answering(client, name):
        mailbox = await client.temporary_queue()
        receipt = await client.queue(name).send(1, reply_to=mailbox.name)

        async with mailbox.receive() as incoming:
            assert (await incoming.next(timeout=10)).correlation_id == receipt.id


async def test_a_reply_goes_to_a_temporary_topic_too(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, answering(client, name):
        topic = await client.temporary_topic()
        async with topic.subscribe() as incoming:
            await client.queue(name).send(4, reply_to=topic.name)

            assert await take(incoming, 1) == [8]


async def test_a_request_that_nobody_answers_times_out_and_its_late_reply_is_dropped(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        with pytest.raises(NoReply, match="no reply"):
            await client.queue(name).request(1, timeout=0.2)

        async with answering(client, name):
            reply = await client.queue(name).request(2, timeout=10)

        assert reply.data == 4
        await until_empty(client, reply.destination)


async def test_an_event_that_names_no_reply_to_cannot_be_replied_to(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send(1)

        with pytest.raises(BadEvent, match="no reply_to"):
            await (await incoming.next(timeout=10)).reply(2)


async def test_a_request_says_itself_where_its_reply_goes(name: str) -> None:
    async with holdfast.connect("memory:") as client:
        with pytest.raises(BadEvent, match="leave reply_to out"):
            await client.queue(name).request(1, reply_to="elsewhere")


async def test_a_correlation_id_that_waits_for_its_reply_is_refused(name: str) -> None:
    async with holdfast.connect("memory:") as client:
        first = asyncio.create_task(client.queue(name).request(1, correlation_id="same", timeout=10))
        await turn_loop()

        with pytest.raises(BadEvent, match="waits for its reply"):
            await client.queue(name).request(2, correlation_id="same")
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


async def test_requests_that_are_cancelled_leave_one_queue_for_replies_however_many_there_were(name: str) -> None:
    async with holdfast.connect(f"memory:{name}") as client:
        for turns in range(20):  # each is cancelled a little later
            asking = asyncio.create_task(client.queue(name).request(turns, timeout=10))
            await turn_loop(turns)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

        async with answering(client, name):
            assert (await client.queue(name).request(21, timeout=10)).data == 42
        temporary = [each["name"] for each in await client.destinations() if each["name"].startswith("_temporary.")]

        assert len(temporary) == 1


async def test_a_correlation_id_that_is_no_text_is_refused(name: str) -> None:
    async with holdfast.connect("memory:") as client:
        with pytest.raises(BadEvent, match="correlation_id is text"):
            await client.queue(name).request(1, correlation_id=[1])  # type: ignore[arg-type]
