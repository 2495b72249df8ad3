"""Upkeep on every lasting kind of channel: one unconfirmed event does not keep what stands behind it (rules 8 and 9)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

import holdfast
from holdfast.channel.channel import Channel
from holdfast.errors import Blocked
from holdfast.node.identity import Identity
from holdfast.node.node import Node
from holdfast.wire import tcp
from tests.contract.channels import KIB, MIB, Kind, Size
from tests.running_server import SETTINGS, RunningServer

# The shape of a channel of 96 MiB with stretches of 8 MiB, at a sixteenth of its size.
SMALL = Size(size_bytes=6144 * KIB, reserve_bytes=256 * KIB, upkeep_bytes=1536 * KIB, segment_bytes=512 * KIB)
BODY = b"x" * (32 * KIB)


async def served(channel: Channel, snapshot_bytes: int) -> RunningServer:
    node = await Node.over(channel, Identity.in_memory(), replace(SETTINGS, snapshot_bytes=snapshot_bytes))
    listener = await tcp.listen("127.0.0.1", 0, node.clients.accept)
    await asyncio.wait_for(node.messages.wait_until_primary(), 30)
    return RunningServer(node, listener)


async def send_twenty(queue: Any) -> None:
    """Sends, and repeats what was refused while upkeep makes room: that goes on by itself."""
    left = 20
    async with asyncio.timeout(30):
        while left:
            try:
                await queue.send_many([BODY] * left)
                return
            except Blocked as refused:
                left -= refused.fields["accepted"]
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("snapshot_bytes", [64 * KIB, 64 * MIB], ids=["snapshots often", "snapshots when space is short"])
async def test_one_unconfirmed_event_does_not_block_a_channel_through_which_four_times_its_size_goes(
    lasting_kind: Kind, snapshot_bytes: int
) -> None:
    server = await served(await lasting_kind.open(SMALL), snapshot_bytes)
    async with holdfast.connect(server.url) as client:
        await client.queue("stragglers").send("the oldest of all")
        async with client.queue("orders").receive(credit=100) as incoming:
            for _ in range(4 * SMALL.size_bytes // (20 * len(BODY))):
                await send_twenty(client.queue("orders"))
                for _ in range(20):
                    await (await incoming.next(timeout=20)).confirm()
                await incoming.settled(timeout=20)

        assert server.node.messages.upkeep.carried > 0
        async with client.queue("stragglers").receive() as incoming:
            assert (await incoming.next(timeout=10)).data == "the oldest of all"
    await server.close()
