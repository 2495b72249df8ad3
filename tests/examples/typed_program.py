"""What a program that uses most of the public interface looks like to a type checker. Checked, and run, by its test."""

from __future__ import annotations

import asyncio
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path

import holdfast
import holdfast.blocking
from holdfast.logging_handler import EventHandler


async def place(orders: holdfast.Queue, sku: int) -> holdfast.Receipt:
    try:
        return await orders.send({"sku": sku}, type="order.placed", time=datetime.now(UTC), properties={"sku": sku}, priority=9)
    except holdfast.errors.Blocked as problem:
        print(problem.code, problem.sentence, problem.fields)
        raise
    except (holdfast.Unavailable, holdfast.OutcomeUnknown):
        raise


async def take(incoming: holdfast.Incoming) -> str:
    event: holdfast.ReceivedEvent = await incoming.next(timeout=10)
    await event.confirm()
    return f"{event.id} {event.type} {event.time.isoformat()} {event.data} {event.redelivered}"


async def work(url: str) -> None:
    async with holdfast.connect(url, name="shop", timeout=10) as client:
        prices: holdfast.Topic = client.topic("prices")
        await client.create_topic("prices", redelivery_limit=3)
        async with client.queue("orders").receive() as orders, prices.subscribe("display") as display:
            receipt = await place(client.queue("orders"), 7)
            receipts: holdfast.Receipts = await prices.send_many([1.09, holdfast.Event(data=1.1, subject="EURUSD")])
            print(receipt.position, [each.id for each in receipts])
            print(await take(orders), await take(display), await take(display))
        session: holdfast.ClientSession
        async with client.session(confirm="client", name="audit") as session, session.subscribe("prices") as audit:
            await prices.send(1.2)
            await audit.next(timeout=10)
            await session.recover()
            print(await take(audit))
        status: holdfast.Status = await client.status()
        oldest = status["oldest_waiting"]
        print(status["is_short"], status["journal_used_bytes"] // 1024, oldest["position"] if oldest is not None else 0)
        topic: holdfast.DestinationDescription = await client.describe("prices")
        names: list[str] = [each["name"] for each in topic["subscriptions"]]
        every: list[holdfast.SubscriptionDescription] = await client.subscriptions()
        print(topic["kind"], names, every[0]["waiting"] if every else 0, client.is_blocked)


def block(url: str) -> None:
    with holdfast.blocking.connect(url) as client, client.queue("log").receive() as incoming:
        event = incoming.next(timeout=10)
        print(event.properties["level"], event.data["message"])
        event.confirm()


def record(folder: Path, url: str) -> None:
    handler = EventHandler(folder, destination="log", level=logging.WARNING)
    logging.getLogger("shop").addHandler(handler)
    logging.getLogger("shop").warning("out of %s", "stock")
    handler.close()
    with holdfast.Recorder(folder) as recorder:
        print(recorder.forward(url).count)


if __name__ == "__main__":
    here = Path(sys.argv[1])
    asyncio.run(work(f"file:{here}/events"))
    record(here / "recorder", f"file:{here}/events")
    block(f"file:{here}/events")
