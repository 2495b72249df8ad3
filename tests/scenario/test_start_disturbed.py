"""A7: whatever goes wrong with what was recorded before the start, what is in the channel is delivered."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import holdfast
from holdfast.channel.channel import Channel
from tests import running_server
from tests.running_server import SETTINGS


async def test_a_fault_while_records_are_taken_in_does_not_keep_the_node_from_delivering(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: Channel) -> None:
        raise KeyError("a fault of ours")

    server = await running_server.start(tmp_path / "data", SETTINGS, before_claim=fail)
    try:
        await asyncio.wait_for(server.node.messages.wait_until_primary(), 10)
        async with holdfast.connect(server.url) as client, client.queue("orders").receive() as incoming:
            await client.queue("orders").send("goes on")
            assert (await incoming.next(10)).data == "goes on"
    finally:
        await server.close()

    assert "events recorded before the start could not be taken" in caplog.text
