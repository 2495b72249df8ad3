"""What is read by place may have been carried forward in the channel, so that its old segment could be used again (rule 9)."""

from __future__ import annotations

from pathlib import Path

import holdfast
from holdfast.client.client import Client
from tests.running_server import running


async def send_and_confirm(client: Client, rounds: int) -> None:
    """Traffic that fills the journal again and again."""
    async with client.queue("q").receive() as incoming:
        for _ in range(rounds):
            await client.queue("q").send_many([bytes(10_000)] * 8)
            for _ in range(8):
                await (await incoming.next(timeout=20)).confirm()
            await incoming.settled(timeout=20)


async def test_events_that_were_carried_are_measured_and_read_as_they_were_sent(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as server, holdfast.connect(server.url) as client:
        reading = client.reading("alerts", "lake")
        async with reading.owner():
            for number in range(6):
                await client.topic("alerts").send(b"%d" % number * 500)
            before = await reading.extent()
            sent = [(slice.first, slice.accepted_us, bytes(slice.batch.data)) async for slice in reading.slices(0, before.end)]
            await send_and_confirm(client, 60)

            assert len(server.node.messages.directory.bodies.carried) == 6
            assert await reading.extent(before.start, events_max=6) == before
            assert (await reading.extent(bytes_max=before.bytes // 2)).events == 3
            found = [(slice.first, slice.accepted_us, bytes(slice.batch.data)) async for slice in reading.slices(0, before.end)]
            assert found == sent
            assert await reading.confirm_up_to(before.end) == 6
