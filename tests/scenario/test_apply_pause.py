"""What nobody receives is applied together, a little later; whoever asks for something never waits for that.

Here a little later is never, so that whatever depended on it would not come about at all.
"""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec
import pytest

import holdfast
from holdfast.errors import StageExists
from holdfast.node.messages import message_manager
from tests import running_server
from tests.waiting import turn_loop, until

NEVER_S = 3_600.0
# Everything, or nothing of what was just written, is read from memory.
from_memory_and_disk = pytest.mark.parametrize("cache_bytes", [1 << 20, 0], ids=["from memory", "from disk"])


@pytest.fixture(autouse=True)
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_manager, "APPLY_PAUSE_S", NEVER_S)


def running(data: Path, tail_cache_bytes: int) -> AbstractAsyncContextManager[running_server.RunningServer]:
    journal = msgspec.structs.replace(running_server.SMALL, tail_cache_bytes=tail_cache_bytes)
    return running_server.running(data, dataclasses.replace(running_server.SETTINGS, journal=journal))


@from_memory_and_disk
async def test_a_recipient_that_comes_is_given_what_has_gathered(tmp_path: Path, cache_bytes: int) -> None:
    async with running(tmp_path, cache_bytes) as server, holdfast.connect(server.url) as client:
        for number in range(20):
            await client.queue("orders").send(number)

        async with client.queue("orders").receive() as incoming:
            assert [(await incoming.next(timeout=10)).data for _ in range(20)] == list(range(20))


@from_memory_and_disk
async def test_whoever_asks_is_answered_and_sees_what_was_receipted_before(tmp_path: Path, cache_bytes: int) -> None:
    async with (
        running(tmp_path, cache_bytes) as server,
        holdfast.connect(server.url) as client,
        holdfast.connect(server.url) as other,
    ):
        for number in range(20):
            await client.queue("orders").send(number)
            await other.create_queue(f"queue-{number}")  # appended beside what has gathered
            assert (await other.describe("orders"))["waiting"] == number + 1

        async with other.queue("orders").browse() as events:
            assert [event.data async for event in events] == list(range(20))
        assert len(await client.destinations()) >= 21


@from_memory_and_disk
async def test_a_destination_with_a_high_water_is_known_to_be_full_as_soon_as_it_is(tmp_path: Path, cache_bytes: int) -> None:
    async with running(tmp_path, cache_bytes) as server, holdfast.connect(server.url) as client:
        await client.create_queue("orders", events_max=3)
        for number in range(3):
            await client.queue("orders").send(number)

        await until(lambda: server.node.messages.flow.is_blocked("orders"), "it is full")


async def test_what_has_gathered_is_there_after_a_crash(tmp_path: Path) -> None:
    first = await running_server.start(tmp_path)
    async with holdfast.connect(first.url) as client:
        for number in range(20):
            await client.queue("orders").send(number)
        await first.crash()

    async with (
        running_server.running(tmp_path) as server,
        holdfast.connect(server.url) as client,
        client.queue("orders").receive() as incoming,
    ):
        assert [(await incoming.next(timeout=10)).data for _ in range(20)] == list(range(20))


@from_memory_and_disk
async def test_who_waits_for_more_to_read_is_told_at_once(tmp_path: Path, cache_bytes: int) -> None:
    async with running(tmp_path, cache_bytes) as server, holdfast.connect(server.url) as client:
        await client.create_queue("orders")
        reading = client.reading("orders")
        for number in range(20):
            await client.queue("others").send(number)  # waits for the end of the pause
            after = (await reading.extent()).end
            waiting = asyncio.create_task(reading.more(after, timeout=10))
            await client.queue("others").send(number)
            await client.queue("orders").send(number)

            assert await asyncio.wait_for(waiting, 5)


@from_memory_and_disk
async def test_what_is_staged_and_published_beside_it_does_not_wait_for_it(tmp_path: Path, cache_bytes: int) -> None:
    async with running(tmp_path, cache_bytes) as server, holdfast.connect(server.url) as client:
        for number in range(20):
            await client.queue("others").send(number)
            stage = client.stage(f"attempt-{number}")
            await stage.send("orders", number)
            sealed = await stage.seal()
            with pytest.raises(StageExists):
                again = client.stage(f"attempt-{number}")
                await again.send("orders", "taken")
                await again.seal()

            assert (await client.publish("job", number, [sealed])).is_new


@from_memory_and_disk
async def test_what_is_asked_for_by_event_is_done(tmp_path: Path, cache_bytes: int) -> None:
    async with running(tmp_path, cache_bytes) as server, holdfast.connect(server.url) as client:
        await client.queue("others").send("gathers")

        await client.queue("_ADMIN").send({"name": "orders", "kind": "queue"}, type="holdfast.admin.create")

        await until(lambda: "orders" in server.node.messages.directory.catalog.destinations, "it is done")


async def test_what_has_gathered_leaves_others_their_turn_while_it_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much there is of it: a task that only wants its turn gets one after every few entries that take long."""
    monkeypatch.setattr(message_manager, "TURN_US", -1)  # every entry takes too long
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await turn_loop()

    async with running_server.running(tmp_path) as server, holdfast.connect(server.url) as client:
        await asyncio.gather(*(client.queue("orders").send(number) for number in range(20)))
        for number in range(20):
            await client.queue("orders").send(number)
        applied = server.node.messages.applied
        taking = asyncio.create_task(take_turns())
        await turn_loop()
        turns = 0

        while server.node.messages.applied < server.node.channel.durable:
            server.node.messages.hurry()
            await turn_loop()
        taking.cancel()

        assert turns >= server.node.messages.applied - applied > 10
