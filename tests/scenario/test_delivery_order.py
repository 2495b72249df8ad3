"""Delays, expiry, groups and selectors through restarts, on deep queues, and beside receivers that want everything."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import holdfast
from holdfast.errors import TimedOut
from holdfast.node.settings import NodeSettings
from tests.running_server import SETTINGS, running, start

DEEP = 20_000
ROOMY = NodeSettings(session_grace_ms=300, start_grace_ms=300)


async def test_a_delay_priorities_and_expiries_live_through_a_crash(tmp_path: Path) -> None:
    server = await start(tmp_path / "data")
    async with holdfast.connect(server.url) as client:
        queue = client.queue("orders")
        sent = time.time()
        await queue.send("delayed", delay_ms=1_500)
        await queue.send("low", priority=1)
        await queue.send("high", priority=8)
        await queue.send("short-lived", ttl_ms=1)
    await server.crash()

    async with running(tmp_path / "data") as again, holdfast.connect(again.url) as client:
        async with client.queue("orders").receive() as incoming:
            first = [(await incoming.next(timeout=10)).data for _ in range(2)]
            last = await incoming.next(timeout=10)

        assert first == ["high", "low"]
        assert last.data == "delayed" and time.time() - sent >= 1.49
        assert (await client.describe("_DMQ"))["waiting"] == 1


async def test_the_back_off_of_a_released_event_lives_through_a_crash(tmp_path: Path) -> None:
    server = await start(tmp_path / "data")
    async with holdfast.connect(server.url) as client:
        await client.create_queue("orders", redelivery_delay=1.0)
        await client.queue("orders").send(1)
        async with client.queue("orders").receive() as incoming:
            event = await incoming.next(timeout=10)
            released = time.time()
            await event.release()
            await incoming.settled()
    await server.crash()

    async with running(tmp_path / "data") as again, holdfast.connect(again.url) as client:
        async with client.queue("orders").receive() as incoming:
            event = await incoming.next(timeout=10)

        assert time.time() - released >= 0.98 and event.redelivered


async def test_a_receiver_that_comes_back_holding_events_keeps_their_groups_rule_15(tmp_path: Path) -> None:
    server = await start(tmp_path / "data")
    port = server.port
    async with holdfast.connect(server.url) as client, holdfast.connect(server.url) as other:
        queue = client.queue("orders")
        async with queue.receive() as mine:
            await queue.send_many([holdfast.Event(data=number, group="g") for number in range(2)])
            held = [await mine.next(timeout=10) for _ in range(2)]
            async with other.queue("orders").receive() as theirs:
                await server.crash()
                again = await start(tmp_path / "data", SETTINGS, port)
                await queue.send(2, group="g", timeout=10)

                event = await mine.next(timeout=10)

                assert event.data == 2
                for each in (*held, event):
                    await each.confirm()
                try:
                    await theirs.next(timeout=0.1)
                    raise AssertionError("the group belongs to another")
                except TimedOut:
                    pass
    await again.close()


async def test_selecting_few_out_of_a_deep_queue_holds_up_nobody_else(tmp_path: Path) -> None:
    """B5: while one receiver looks for one event in a thousand, another queue and a plain receiver of the same go on."""
    async with running(tmp_path / "data", ROOMY) as server, holdfast.connect(server.url) as client:
        queue = client.queue("deep")
        async with queue.pipeline() as pipeline:
            for number in range(DEEP):
                await pipeline.send(number, properties={"number": number, "is_rare": number % 1_000 == 999})
        async with queue.receive(selector="is_rare", credit=100) as rare, client.queue("quick").receive() as quick:
            worst = 0.0  # seconds of work: another process may have the machine meanwhile
            found: list[int] = []

            async def collect() -> None:
                while len(found) < DEEP // 1_000:
                    found.append((await rare.next(timeout=30)).data)

            collecting = asyncio.create_task(collect())
            while not collecting.done():
                began = time.thread_time()
                await client.queue("quick").send(0)
                await (await quick.next(timeout=60)).confirm()
                worst = max(worst, time.thread_time() - began)
            await collecting
            assert found == [number for number in range(DEEP) if number % 1_000 == 999]
            assert worst < 0.5, "a turn is a millisecond"
            async with queue.receive(credit=10) as plain:
                assert [(await plain.next(timeout=10)).data for _ in range(10)] == list(range(10))


async def test_a_recipient_without_credit_does_not_hold_up_other_groups(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as server, holdfast.connect(server.url) as client:
        queue = client.queue("orders")
        async with queue.receive(credit=1) as slow:
            await queue.send_many([holdfast.Event(data=number, group="slow") for number in range(100)])
            assert (await slow.next(timeout=10)).data == 0
            async with queue.receive(credit=100) as other:
                await queue.send_many([holdfast.Event(data=number, group="other") for number in range(50)])

                assert [(await other.next(timeout=10)).data for _ in range(50)] == list(range(50))


async def test_groups_priorities_and_selectors_deliver_everything_once_through_restarts(tmp_path: Path) -> None:
    total, seen = 300, []
    server = await start(tmp_path / "data")
    async with holdfast.connect(server.url) as client:
        await client.queue("orders").send_many(
            [
                holdfast.Event(
                    data=number,
                    priority=number % 3 * 4,
                    group=f"g{number % 7}" if number % 2 else None,
                    properties={"third": number % 3},
                )
                for number in range(total)
            ]
        )
    for _ in range(3):
        async with holdfast.connect(server.url) as client:
            queue = client.queue("orders")
            async with queue.receive(selector="third = 0", credit=20) as some, queue.receive(credit=30) as rest:
                for incoming, count in ((some, 10), (rest, 40)):
                    for _ in range(count):
                        event = await incoming.next(timeout=10)
                        seen.append(event.data)
                        await event.confirm()
        await server.crash()
        server = await start(tmp_path / "data")
    async with holdfast.connect(server.url) as client, client.queue("orders").receive() as rest:
        while len(seen) < total:
            event = await rest.next(timeout=10)
            seen.append(event.data)
            await event.confirm()
    await server.close()

    assert sorted(seen) == list(range(total))
