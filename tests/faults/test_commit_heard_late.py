"""A commit that was sent and not answered in time, because the server stood still: once the answer comes, what it confirmed is
finished, or comes again. Nothing stays locked in a receiver that goes on (B11)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import LinkLost, TimedOut
from tests.server_process import ServerProcess


async def commit_to(server: ServerProcess, client: holdfast.Client, incoming: holdfast.Incoming) -> None:
    """Move an event in a transaction while the server stands still; nobody knows what becomes of it."""
    event = await incoming.next(10)
    tx = client.transaction(timeout=1)
    await tx.queue("out").send(event.data)
    await tx.confirm(event)
    server.signal(signal.SIGSTOP)
    with pytest.raises(LinkLost):
        await tx.commit()
    server.signal(signal.SIGCONT)


@pytest.mark.faults
async def test_a_commit_that_is_found_aborted_late_gives_back_what_it_confirmed(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with holdfast.connect(server.url) as client:
            await client.create_topic("out")  # so that the part for a queue of this name is refused
            await client.queue("in").send("moved")
            async with client.queue("in").receive() as incoming:
                await commit_to(server, client, incoming)

                again = await incoming.next(10)

                assert (again.data, again.deliveries) == ("moved", 1)
                await again.confirm()
                await incoming.settled()
            assert (await client.describe("in"))["waiting"] == 0


@pytest.mark.faults
async def test_a_commit_that_is_found_done_late_has_confirmed_what_it_confirmed(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with holdfast.connect(server.url) as client:
            await client.create_queue("out")
            await client.queue("in").send("moved")
            async with client.queue("in").receive() as incoming:
                await commit_to(server, client, incoming)

                async with client.queue("out").receive() as moved:
                    assert (await moved.next(10)).data == "moved"
                with pytest.raises(TimedOut):
                    await incoming.next(0.3)
            assert (await client.describe("in"))["waiting"] == 0
