"""A3, rules 8 and 9: space is reused for ever, and one straggler does not pin it all."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from tests.running_server import SMALL, running

pytestmark = pytest.mark.slow

BODY = b"x" * 2000


async def test_fifty_times_the_journals_size_goes_through_it_while_one_straggler_stays(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as server, holdfast.connect(server.url) as client:
        await client.queue("stragglers").send("the oldest of all")
        total = 50 * SMALL.size_bytes // len(BODY)
        sent = received = 0
        async with client.queue("orders").receive(credit=400) as incoming:
            while received < total:
                await client.queue("orders").send_many(
                    [{"number": sent + each, "pad": BODY.decode()} for each in range(100)], timeout=20
                )
                sent += 100
                for _ in range(100):
                    event = await incoming.next(timeout=10)
                    assert event.data["number"] == received
                    await event.confirm()
                    received += 1
                await incoming.settled(timeout=10)

        used = sum(file.stat().st_size for file in (tmp_path / "data" / "journal").iterdir())
        assert used <= SMALL.size_bytes + 64 * 1024
        assert server.node.messages.upkeep.carried > 0
        async with client.queue("stragglers").receive() as incoming:
            assert (await incoming.next(timeout=10)).data == "the oldest of all"


async def test_what_was_carried_is_delivered_from_its_new_place_also_after_a_restart(tmp_path: Path) -> None:
    """Rule 1: a position names an event for ever, also after it was carried."""
    async with running(tmp_path / "data") as server, holdfast.connect(server.url) as client:
        receipt = await client.queue("stragglers").send("the oldest of all")
        async with client.queue("orders").receive(credit=400) as incoming:
            for _ in range(20):
                await client.queue("orders").send_many([BODY] * 100, timeout=20)
                for _ in range(100):
                    await (await incoming.next(timeout=10)).confirm()
                await incoming.settled(timeout=10)
        assert server.node.messages.upkeep.carried > 0

    async with (
        running(tmp_path / "data") as server,
        holdfast.connect(server.url) as client,
        client.queue("stragglers").receive() as incoming,
    ):
        event = await incoming.next(timeout=10)
        assert (event.data, event.position) == ("the oldest of all", receipt.position)
