"""Deduplication among other parts: restarts, lost links, the Recorder, a client that lies, the log."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import holdfast
import holdfast.blocking
from holdfast.destination import command
from holdfast.destination.state.deduplication import Deduplication
from holdfast.event import batch, position
from holdfast.event.event import Head, encode_head
from holdfast.recorder.recorder import Recorder
from holdfast.wire.frame import Goodbye, Manage, OpenProducer, Receipted, Send
from tests.raw_client import RawClient, failing_node
from tests.server_process import SMALL_QUERY


async def test_what_was_remembered_outlives_restarts(tmp_path: Path) -> None:
    url = f"file:{tmp_path / 'events'}{SMALL_QUERY}"
    async with holdfast.connect(url, name="till") as client:
        await client.create_queue("sales", deduplicate="10m")
        first = await client.queue("sales").send("before", id="1")
    async with holdfast.connect(url, name="till") as client:  # closing took a snapshot
        again = await client.queue("sales").send("after a restart", id="1")
        new = await client.queue("sales").send("new", id="2")
    async with holdfast.connect(url, name="till") as client:
        last = await client.queue("sales").send("after another", id="2")

        assert [(each.position, each.is_repeated) for each in (again, last)] == [(first.position, True), (new.position, True)]
        assert (await client.describe("sales"))["waiting"] == 2


def test_what_a_recorder_forwards_is_stored_once_also_from_two_recorders(tmp_path: Path) -> None:
    url = f"file:{tmp_path / 'events'}{SMALL_QUERY}"
    with holdfast.blocking.connect(url) as client:
        client.create_queue("sales", deduplicate="10m")
    for folder in ("first", "second"):
        with Recorder(tmp_path / folder, source="till") as recorder:
            for number in range(3):
                recorder.record(number, "sales", id=str(number))
            recorder.forward(url)
            assert recorder.held == 0

    with holdfast.blocking.connect(url) as client:
        assert client.describe("sales")["waiting"] == 3


def sale(*ids: str) -> bytes:
    return batch.encode([encode_head(Head(id=id)) for id in ids], [b"x"] * len(ids), source="till", first_id=1)


@contextlib.asynccontextmanager
async def raw_client() -> AsyncIterator[tuple[RawClient, str]]:
    """A client of a node where `sales` deduplicates, and its producer."""
    node, _ = await failing_node()
    await node.messages.wait_until_primary()
    client = RawClient(node)
    await client.greet()
    await client.ask(Manage, "create", {"name": "sales", "kind": "queue", "deduplicate": "10m"})
    yield client, (await client.ask(OpenProducer)).value["producer"]
    await node.close()


async def test_a_batch_is_receipted_when_it_is_applied_and_the_receipt_says_what_was_repeated() -> None:
    async with raw_client() as (client, producer):
        for sequence, ids in enumerate((("a", "b"), ("b", "c")), 1):
            client.say(Send(sequence), command.encode(command.BatchCommand("sales", producer, sequence), sale(*ids)))
        first, second = await client.hear(Receipted, 2)

    assert first.repeated == ()
    assert second.repeated == ((0, 1, position.of(first.entry, 1)),)


async def test_a_client_that_says_who_waits_for_its_batch_is_sent_away() -> None:
    """It would be answered in the place of somebody else's question."""
    async with raw_client() as (client, producer):
        forged = command.BatchCommand("sales", producer, 1, 0, "client_manager.somebody", 1)
        client.say(Send(1), command.encode(forged, sale("a")))
        await client.until_lost()

        assert [each.code for each in client.of(Goodbye)] == ["protocol-error"]


async def test_a_window_that_is_shortened_is_in_the_log_once_in_describe_and_in_status(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Deduplication.__init__, "__defaults__", (10,))
    async with holdfast.connect("memory:") as client:
        await client.create_queue("sales", deduplicate="10m")
        with caplog.at_level(logging.WARNING, "holdfast.flow"):
            for _ in range(5):
                await client.queue("sales").send_many(range(10))

        shown = await client.describe("sales")
        assert shown["remembered"] == 10
        shortened_to_s = shown["deduplicate_shortened_to"]
        assert shortened_to_s is not None and 0 <= shortened_to_s < 600
        assert (await client.status())["deduplicate_shortened"] == ["sales"]
    assert [record.getMessage().startswith("'sales' deduplicates for") for record in caplog.records] == [True]


async def test_nobody_waits_long_for_the_receipt_of_a_lone_event() -> None:
    """What nobody receives is applied after a pause; what somebody waits for is not."""
    async with holdfast.connect("memory:") as client:
        await client.create_queue("sales", deduplicate="10m")
        await client.queue("sales").send(0)
        begin = asyncio.get_running_loop().time()
        for number in range(50):
            await client.queue("sales").send(number)

        assert asyncio.get_running_loop().time() - begin < 50 * 0.02
