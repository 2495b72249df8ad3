"""Make the data folder of a journal with every kind of entry, with whichever release is on the path.

    git archive 4210eb8 | tar x -C /tmp/first
    PYTHONPATH=/tmp/first/src python tests/data/journals/make.py /tmp/made features
    tar cJf tests/data/journals/0.1.0-4210eb8.tar.xz -C /tmp/made .

Without `features`, only what the first days had: queues, topics, subscriptions, dead events. It is closed, opened and killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import holdfast

SIZES = "?journal_size=64M&reserve=1M&segment_size=1M"


async def plain(client: holdfast.Client) -> None:
    await client.create_queue("orders", redelivery_limit=3)
    orders = client.queue("orders")
    await orders.send_many({"number": number} for number in range(10))
    async with client.queue("orders").receive(credit=4) as incoming:
        await (await incoming.next(timeout=10)).confirm()
        await (await incoming.next(timeout=10)).reject("not wanted")
    await client.create_topic("news")
    await client.create_subscription("news", "archive")
    await client.topic("news").send("first", properties={"amount": 5})
    await client.topic("news").send("second", properties={"amount": 500})
    for _ in range(40):
        await client.queue("filler").send("x" * 100_000)
        async with client.queue("filler").receive(credit=1) as incoming:
            await (await incoming.next(timeout=10)).confirm()
    await orders.send({"number": 10})


async def features(client: holdfast.Client) -> None:
    await client.create_queue("parcels", events_max=1000, redelivery_delay=2.5)
    await client.create_subscription("news", "large", selector="amount > 100")
    await client.create_subscription("alerts.*", "all")
    await client.topic("news").send("third", properties={"amount": 1000})
    await client.topic("alerts.fire").send("fire")
    await client.queue("parcels").send("urgent", priority=9, group="g")
    await client.queue("parcels").send("late", delay_ms=3_600_000)
    async with client.transaction() as transaction:
        await transaction.queue("parcels").send("committed")
        await transaction.topic("news").send("of a transaction", properties={"amount": 1})
    undone = client.transaction()
    async with undone:
        await undone.queue("parcels").send("rolled back")
        await undone.rollback()
    await client.queue("large").send_stream(b"L" * 200_000, type="large.thing")
    stage = client.stage("attempt-1")
    await stage.send("staged", "published 1")
    await stage.send("staged", "published 2")
    await client.publish("scope", 1, [await stage.seal()])


async def make(folder: str, has_features: bool) -> None:
    async with holdfast.connect(f"file:{folder}{SIZES}", name="maker") as client:
        await plain(client)
        if has_features:
            await features(client)
    async with holdfast.connect(f"file:{folder}{SIZES}", name="maker") as client:
        await client.queue("last").send("the last event")
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(make(sys.argv[1], "features" in sys.argv))
