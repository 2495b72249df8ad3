"""What a restart keeps, and in which order it goes on (A6, A7, rules 5, 14, 15, 16)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from pathlib import Path

import pytest

import holdfast
from holdfast.channel.channel import Channel
from holdfast.errors import LinkLost, TimedOut, Unreachable, WrongKind
from holdfast.node.messages import upkeep
from tests.running_server import PATIENT, SETTINGS, RunningServer, running, start
from tests.waiting import until


async def drain(client: holdfast.Client, count: int) -> list[object]:
    async with client.queue("orders").receive() as incoming:
        seen = []
        for _ in range(count):
            event = await incoming.next(timeout=10)
            seen.append(event.data)
            await event.confirm()
        return seen


async def test_events_are_accepted_while_the_channel_is_still_being_replayed(tmp_path: Path) -> None:
    """A6, rule 16: accepting needs only the tail; delivering waits for the replay."""
    gate = asyncio.Event()

    async def wait(_: Channel) -> None:
        await gate.wait()

    server = await start(tmp_path / "data", before_claim=wait)
    async with holdfast.connect(server.url) as client:
        receipt = await client.queue("orders").send("early", timeout=5)
        assert receipt.is_synced
        assert not server.node.messages.is_primary

        gate.set()
        assert await drain(client, 1) == ["early"]
    await server.close()


async def test_a_recipient_that_attaches_while_the_channel_is_being_replayed_gets_its_events(tmp_path: Path) -> None:
    before = await start(tmp_path / "data")
    async with holdfast.connect(before.url) as client:
        await client.queue("orders").send_many(range(10))
        await before.crash()
    gate = asyncio.Event()

    async def wait(_: Channel) -> None:
        await gate.wait()

    server = await start(tmp_path / "data", before_claim=wait)
    async with holdfast.connect(server.url) as client:
        draining = asyncio.create_task(drain(client, 10))
        await client.queue("others").send("meanwhile")
        assert not server.node.messages.is_primary

        gate.set()
        assert await draining == list(range(10))
    await server.close()


async def test_what_is_replayed_after_a_crash_stays_short_while_nobody_confirms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "SNAPSHOT_ENTRIES", 100)
    before = await start(tmp_path / "data")
    fetched: list[object] = []
    channel = before.node.messages.channel
    monkeypatch.setattr(channel, "fetch", fetched.append)
    saving, save = 0, channel.save_snapshot

    async def count_while_saving(at: int, chunks: Iterable[bytes]) -> None:
        nonlocal saving
        saving += 1
        await save(at, chunks)
        saving -= 1

    monkeypatch.setattr(channel, "save_snapshot", count_while_saving)
    async with holdfast.connect(before.url) as client:
        for number in range(1000):
            await client.queue("orders").send(number)
            await until(lambda: not saving, "the snapshot is saved")  # as a disk that is quick enough does it
        await before.crash()
    assert fetched == []  # nothing of what everybody still needs is read to be carried

    server = await start(tmp_path / "data")
    assert server.node.messages.replayed < 300
    async with holdfast.connect(server.url) as client:
        assert await drain(client, 1000) == list(range(1000))
    await server.close()


async def test_after_a_crash_what_came_during_the_start_is_delivered_first_then_the_unfinished_then_the_new(
    tmp_path: Path,
) -> None:
    """A7, in the order it gives."""
    before = await start(tmp_path / "data")
    async with holdfast.connect(before.url) as client:
        await client.queue("orders").send_many(["unfinished 1", "unfinished 2"])
        await before.crash()

    gate = asyncio.Event()

    async def wait(_: Channel) -> None:
        await gate.wait()

    server = await start(tmp_path / "data", before_claim=wait)
    async with holdfast.connect(server.url) as early:
        await early.queue("orders").send_many(["during the start 1", "during the start 2"], timeout=5)
        gate.set()
        await server.node.messages.wait_until_primary()
        async with holdfast.connect(server.url) as client:
            await client.queue("orders").send("new")

            assert await drain(client, 5) == ["during the start 1", "during the start 2", "unfinished 1", "unfinished 2", "new"]
    await server.close()


async def test_a_producers_own_order_wins_over_the_order_after_a_crash(tmp_path: Path) -> None:
    """Rule 14: a producer that has unfinished events from before does not overtake itself."""
    server = await start(tmp_path / "data")
    port = server.port
    async with holdfast.connect(server.url) as client:
        await client.queue("orders").send_many(["first", "second"])
        await server.crash()
        gate = asyncio.Event()

        async def wait(_: Channel) -> None:
            await gate.wait()

        server = await start(tmp_path / "data", port=port, before_claim=wait)
        sending = asyncio.create_task(client.queue("orders").send("third", timeout=20))
        await until(lambda: server.node.clients.open_links, "the client is back while the server starts")
        gate.set()
        await sending
        assert await drain(client, 3) == ["first", "second", "third"]
    await server.close()


async def test_what_a_resumed_recipient_holds_is_not_delivered_again_after_a_restart(tmp_path: Path) -> None:
    """Rule 15: on re-attach it is told what is held; a confirm from before the restart still counts."""
    server = await start(tmp_path / "data")
    port = server.port
    async with holdfast.connect(server.url) as client:
        await client.queue("orders").send_many(["one", "two", "three"])
        async with client.queue("orders").receive() as incoming:
            held = [await incoming.next(timeout=5) for _ in range(2)]
            await server.crash()
            server = await start(tmp_path / "data", port=port)

            third = await incoming.next(timeout=10)
            assert third.data == "three"
            for event in (*held, third):
                await event.confirm()
            await incoming.settled(timeout=10)
            with pytest.raises(TimedOut):
                await incoming.next(timeout=0.6)
        assert (await client.describe("orders"))["waiting"] == 0
    await server.close()


async def take_and_die(server: RunningServer) -> int:
    """A recipient takes the poison, which takes the server with it; how often it had been delivered before."""
    with contextlib.suppress(LinkLost, Unreachable):
        async with holdfast.connect(server.url, timeout=0.5) as client, client.queue("orders").receive() as incoming:
            event = await incoming.next(timeout=3)
            if event.data == "harmless":
                await event.confirm()
                await incoming.settled()
                event = await incoming.next(timeout=3)
            assert event.data == "poison"
            await server.crash()
    return event.deliveries


async def test_an_event_that_kills_its_server_and_client_each_time_still_reaches_its_limit(tmp_path: Path) -> None:
    """Rule 5: nobody could note the first time; from then on it is handed out with care, and counted by the new epoch."""
    server = await start(tmp_path / "data")
    async with holdfast.connect(server.url) as client:
        await client.create_queue("orders", redelivery_limit=2)
        await client.queue("orders").send_many(["harmless", "poison"])
    for deliveries in (0, 0, 1, 2):
        assert await take_and_die(server) == deliveries
        server = await start(tmp_path / "data")

    async with (
        holdfast.connect(server.url) as client,
        client.queue("orders").receive() as incoming,
        client.queue("_DMQ").receive() as dead,
    ):
        assert (await dead.next(timeout=5)).data == "poison"
        with pytest.raises(TimedOut):
            await incoming.next(timeout=0.1)
    await server.close()


async def test_restarts_of_the_server_count_nothing_that_a_living_client_still_holds(tmp_path: Path) -> None:
    """Rule 5: with a limit of one, whatever had been counted would be dead at the second."""
    server = await start(tmp_path / "data", PATIENT)
    port = server.port
    async with holdfast.connect(server.url, timeout=20) as client:
        await client.create_queue("orders", redelivery_limit=1)
        await client.queue("orders").send_many(range(50))
        async with client.queue("orders").receive() as incoming:
            for number in range(4):
                event = await incoming.next(timeout=10)
                assert event.data == number
                await event.confirm()
                await incoming.settled(timeout=10)
                await server.crash()
                server = await start(tmp_path / "data", PATIENT, port)
        async with client.queue("orders").receive() as incoming:
            left = [await incoming.next(timeout=10) for _ in range(46)]
            assert [(event.data, event.deliveries) for event in left] == [(number, 0) for number in range(4, 50)]
            for event in left:
                await event.confirm()
        assert (await client.describe("_DMQ"))["waiting"] == 0
    await server.close()


async def test_a_restart_in_good_order_replays_nothing(tmp_path: Path) -> None:
    """Rule 16: the last snapshot covers everything."""
    async with running(tmp_path / "data") as server, holdfast.connect(server.url) as client:
        await client.queue("orders").send_many(range(1000))

    server = await start(tmp_path / "data")
    assert server.node.messages.replayed <= 2
    async with holdfast.connect(server.url) as client:
        assert await drain(client, 1000) == list(range(1000))
    await server.close()


async def test_a_session_that_does_not_come_back_after_a_restart_loses_its_events_to_others(tmp_path: Path) -> None:
    """Rule 4: detach is a command."""
    server = await start(tmp_path / "data")
    client = holdfast.connect(server.url)
    await client.open()
    await client.queue("orders").send("one")
    incoming = client.queue("orders").receive()
    await incoming.__aenter__()
    await incoming.next(timeout=5)
    await server.crash()
    await client.close()

    server = await start(tmp_path / "data", SETTINGS)
    async with holdfast.connect(server.url) as other:
        assert await drain(other, 1) == ["one"]
    await server.close()


async def test_the_subscriptions_of_a_queue_are_refused_as_such(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as server, holdfast.connect(server.url) as client:
        await client.create_queue("orders")

        with pytest.raises(WrongKind, match="queue"):
            await client.subscriptions("orders")
