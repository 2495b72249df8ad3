"""Replaying dead events while the server is killed again and again: each comes back exactly once (B20)."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

import holdfast
from tests import effort
from tests.server_process import ServerProcess

COUNT = 200
KILLS = effort.rounds(short=2, long=5)
SEED = 20


async def _prepare(url: str) -> None:
    async with holdfast.connect(url) as client, client.queue("orders").receive() as incoming:
        await client.queue("orders").send_many([{"n": number} for number in range(COUNT)])
        for _ in range(COUNT):
            await (await incoming.next(timeout=10)).reject("not today")


async def _replay_until_killed(url: str, server: ServerProcess, dice: random.Random) -> None:
    """The kill comes somewhere within the replay."""
    async with holdfast.connect(url) as client:
        replaying = asyncio.ensure_future(client.dead.replay(everything=True))
        await asyncio.wait({replaying}, timeout=dice.random() * 0.06)
        server.kill()
        replaying.cancel()
        await asyncio.gather(replaying, return_exceptions=True)


async def _what_is_there(url: str) -> tuple[list[int], int]:
    async with holdfast.connect(url) as client:
        await client.dead.replay(everything=True)
        taken = []
        async with client.queue("orders").receive() as incoming:
            for _ in range((await client.describe("orders"))["waiting"]):
                event = await incoming.next(timeout=10)
                taken.append(event.data["n"])
                await event.confirm()
        return taken, (await client.describe("_DMQ"))["waiting"]


@pytest.mark.slow
@pytest.mark.faults
def test_killed_while_dead_events_are_replayed_each_comes_back_once(tmp_path: Path) -> None:
    dice = random.Random(effort.seed(SEED))
    with ServerProcess(tmp_path / "data") as server:
        asyncio.run(_prepare(server.url))
        for _ in range(KILLS):
            asyncio.run(_replay_until_killed(server.url, server, dice))
            server.start()

        taken, dead = asyncio.run(_what_is_there(server.url))

    assert sorted(taken) == list(range(COUNT))
    assert dead == 0
