"""When an event was accepted is kept as long as the event is: when it is carried, over restarts, in older journals."""

from __future__ import annotations

import logging
import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

import holdfast
import holdfast.blocking
from holdfast.channel.channel import Purpose
from holdfast.channel.journal.journal_channel import JournalChannel
from holdfast.destination import command
from holdfast.node.node import JOURNAL_FOLDER
from holdfast.recorder.recorder import Recorder
from tests.machines import batch_of
from tests.running_server import SMALL, RunningServer, running
from tests.server_process import ServerProcess

BODY = b"x" * 2000


async def carry(server: RunningServer, client: holdfast.Client) -> None:
    """So much goes through the journal that what stays is carried forward."""
    before = server.node.messages.upkeep.carried
    async with client.queue("orders").receive(credit=400) as incoming:
        while server.node.messages.upkeep.carried == before:
            await client.queue("orders").send_many([BODY] * 100, timeout=20)
            for _ in range(100):
                await (await incoming.next(timeout=10)).confirm()
            await incoming.settled(timeout=10)


async def times_of(client: holdfast.Client, queue: str) -> list[datetime | None]:
    async with client.queue(queue).browse() as events:
        return [event.accepted_at async for event in events]


async def test_an_event_that_is_carried_twice_and_outlives_a_restart_was_accepted_when_it_was_rule_9(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as server, holdfast.connect(server.url) as client:
        await client.queue("stragglers").send("the oldest of all")
        async with client.transaction() as tx:
            await tx.queue("stragglers").send("one of a transaction")
        before = await times_of(client, "stragglers")

        await carry(server, client)
        await carry(server, client)
        assert await times_of(client, "stragglers") == before
        assert None not in before

    async with (
        running(tmp_path / "data") as server,
        holdfast.connect(server.url) as client,
        client.queue("stragglers").receive() as incoming,
    ):
        assert [(await incoming.next(timeout=10)).accepted_at for _ in range(2)] == before


def written_before(kind: type[command.Command], head: list[Any], payload: bytes = b"") -> bytes:
    encoded = msgspec.msgpack.encode(head)
    return struct.pack("<BH", kind.KIND, len(encoded)) + encoded + payload


async def test_a_journal_of_an_older_release_is_replayed_and_does_not_say_when_its_events_were_accepted(tmp_path: Path) -> None:
    channel = await JournalChannel.open(tmp_path / "data" / JOURNAL_FOLDER, SMALL)
    await channel.append(command.encode(command.Create("old", "queue")), Purpose.UPKEEP)
    await channel.append(written_before(command.BatchCommand, ["old", "", 0], batch_of(2)))
    await channel.append(command.encode(command.OpenProducer("p", "ann")))
    await channel.append(written_before(command.Part, ["ann", "t", 1, "old", (0, 0), 0, 0], batch_of(1)))
    await channel.append(command.encode(command.Commit("ann", "t", 1)))
    await channel.close()

    async with running(tmp_path / "data") as server, holdfast.connect(server.url) as client:
        assert await times_of(client, "old") == [None] * 3
        await carry(server, client)
        await client.queue("old").send("new")

        *old, new = await times_of(client, "old")
        assert old == [None] * 3
        assert isinstance(new, datetime)


def test_what_was_recorded_before_a_start_was_accepted_when_the_server_took_it_a7(tmp_path: Path) -> None:
    with Recorder(tmp_path / "recorder") as recorder:
        recorder.record("early", "orders")
    recorded = datetime.now(UTC)

    with (
        ServerProcess(tmp_path / "data", "--boot-recorder", str(tmp_path / "recorder")) as server,
        holdfast.blocking.connect(server.url) as client,
        client.queue("orders").receive() as incoming,
    ):
        event = incoming.next(timeout=10)

        assert event.accepted_at is not None
        assert event.time <= recorded <= event.accepted_at <= datetime.now(UTC)


async def test_what_the_server_itself_sends_says_when_too_b16() -> None:
    before = datetime.now(UTC)
    async with holdfast.connect("memory:") as client, client.topic("_LOG").subscribe() as records:
        logging.getLogger("holdfast.server").warning("the disk is full")
        answer = await client.queue("_ADMIN").request({}, type="holdfast.admin.status", timeout=10)
        record = await records.next(timeout=10)

        for event in (answer, record):
            assert event.accepted_at is not None
            assert before <= event.accepted_at <= datetime.now(UTC)
