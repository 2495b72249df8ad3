"""What comes and goes leaves nothing behind in memory: neither in the node nor in the client, whatever feature was used."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

import holdfast
from holdfast.errors import SubscriptionInUse
from holdfast.node.node import Node
from holdfast.node.settings import NodeSettings
from holdfast.simulation.checkers.free_space import still_needed
from tests.client_of import client_of, sibling_of
from tests.reachable import grown, sizes

Use = Callable[[holdfast.Client, int], Awaitable[None]]
# So often first: what is made once is made then, and what is remembered of the last few is full.
ONCE = 80
AGAIN = 200


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[Node, holdfast.Client]]:
    node = await Node.in_memory(NodeSettings(start_grace_ms=1, session_grace_ms=1_000))
    async with client_of(node) as client:
        await client.create_topic("news")
        yield node, client


async def take(client: holdfast.Client, queue: str, count: int) -> None:
    async with client.queue(queue).receive() as incoming:
        for _ in range(count):
            await (await incoming.next(10)).confirm()
        await incoming.settled()


async def temporary_queues(client: holdfast.Client, count: int) -> None:
    for _ in range(count):
        queue = await client.temporary_queue()
        await queue.send("now")
        await queue.send("much later", delay_ms=3_600_000)
        async with queue.receive() as incoming:
            await (await incoming.next(10)).confirm()
            await incoming.settled()
        await client.delete(queue.name, force=True)


async def transactions(client: holdfast.Client, count: int) -> None:
    async with client.queue("in").receive() as incoming:
        for number in range(count):
            await client.queue("in").send(number)
            async with client.transaction() as tx:
                await tx.queue("out").send(number, priority=number % 10)
                await tx.topic("news").send(number)
                await tx.confirm(await incoming.next(10))
    await take(client, "out", count)


async def transactions_rolled_back(client: holdfast.Client, count: int) -> None:
    for number in range(count):
        tx = client.transaction()
        await tx.queue("out").send(b"x" * 300_000 if number % 10 == 0 else number)
        await tx.rollback()


async def groups(client: holdfast.Client, count: int) -> None:
    for begin in range(0, count, 10):
        names = [f"group-{begin}-{number}" for number in range(10)]
        await client.queue("grouped").send_many([holdfast.Event(data=name, group=name) for name in names])
        await take(client, "grouped", 10)


async def selectors(client: holdfast.Client, count: int) -> None:
    for number in range(count):
        async with client.queue("chosen").receive(selector=f"number = {number}") as incoming:
            await client.queue("chosen").send(number, properties={"number": number})
            await (await incoming.next(10)).confirm()
            await incoming.settled()


async def subscriptions(client: holdfast.Client, count: int) -> None:
    for number in range(count):
        async with client.subscribe("new*", selector=f"number = {number}") as incoming:
            await client.topic("news").send(number, properties={"number": number})
            await (await incoming.next(10)).confirm()
            await incoming.settled()


async def refused_receivers(client: holdfast.Client, count: int) -> None:
    async with client.subscribe("news", "one"):
        for _ in range(count):
            with pytest.raises(SubscriptionInUse):
                await client.subscribe("news", "one").open()


async def sessions(client: holdfast.Client, count: int) -> None:
    for number in range(count):
        async with client.session(confirm="client") as session:
            await session.queue("spoken").send(number)
            async with session.queue("spoken").receive() as incoming:
                await (await incoming.next(10)).confirm()


async def clients(client: holdfast.Client, count: int) -> None:
    for number in range(count):
        async with sibling_of(client) as other:
            await other.queue("visited").send(number)
            await (await other.temporary_queue()).send(number)
    await take(client, "visited", count)


async def requests(client: holdfast.Client, count: int) -> None:
    async def answer() -> None:
        async with client.queue("questions").receive() as incoming:
            for _ in range(count):
                event = await incoming.next(10)
                await event.reply(event.data)
                await event.confirm()

    answering = asyncio.create_task(answer())
    for number in range(count):
        await client.queue("questions").request(number)
    await answering


async def large_events(client: holdfast.Client, count: int) -> None:
    for _ in range(count // 10):
        await client.queue("large").send_stream(b"x" * 600_000)
        async with client.queue("large").receive() as incoming:
            event = await incoming.next(10)
            async with event.open_stream() as stream:
                await stream.read()
            await event.confirm()
            await incoming.settled()


async def dead_events(client: holdfast.Client, count: int) -> None:
    await client.queue("sick").send_many(range(count))
    async with client.queue("sick").receive() as incoming:
        for _ in range(count):
            await (await incoming.next(10)).reject("not today")
        await incoming.settled()
    await client.dead.replay(everything=True)
    await take(client, "sick", count)


async def full_queues(client: holdfast.Client, count: int) -> None:
    for number in range(count):
        await client.create_queue(f"small-{number}", events_max=2)
        await client.queue(f"small-{number}").send_many(range(3))
        await client.delete(f"small-{number}", force=True)
    await client.dead.purge(everything=True)


@pytest.mark.parametrize(
    "use",
    [
        temporary_queues, transactions, transactions_rolled_back, groups, selectors, subscriptions, refused_receivers, sessions,
        clients, requests, large_events, dead_events, full_queues,
    ],
)  # fmt: skip
async def test_what_comes_and_goes_leaves_nothing_behind(use: Use) -> None:
    async with opened() as (node, client):
        await use(client, ONCE)
        gc.collect()
        before = sizes(node=node.messages, clients=node.clients, client=client)

        await use(client, AGAIN)

        after = sizes(node=node.messages, clients=node.clients, client=client)
        leaking = grown(before, after, by=AGAIN // 2)
        # What the channel holds is released in its time; lines that are folded are bounded, and go with their interval.
        assert not {path: count for path, count in leaking.items() if "channel" not in path and "operator_log" not in path}
        assert not still_needed(node.messages.directory)
