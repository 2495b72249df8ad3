"""Keepers live through kills, of their own and of the server (A9): what they kept is not sent again, nothing counts as delivered,
and in the end everything is confirmed once."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from pathlib import Path

import pytest

import holdfast
from holdfast.event.position import Ranges
from tests import effort
from tests.server_process import ServerProcess

EVENTS = 200

# Keeps a line for each event, synced, and says so; goes on where it was when it starts again.
KEEPER = """
import asyncio, os, sys, holdfast
url, path = sys.argv[1:]
async def main():
    open(path, "a").close()
    kept = [int(line.split()[0]) for line in open(path)]
    async with holdfast.connect(url) as client:
        held = [(each, each) for each in kept]
        async with client.subscribe("alerts", "relay", take_over=True, held=lambda: held, credit=20) as incoming:
            print("began", len(kept), incoming.lost.count, flush=True)
            with open(path, "a") as file:
                async for event in incoming:
                    file.write(f"{event.position} {event.data} {event.deliveries}\\n")
                    file.flush()
                    os.fsync(file.fileno())
                    held.append((event.position, event.position))
                    print("kept", flush=True)
asyncio.run(main())
"""


class Keeper:
    def __init__(self, url: str, path: Path) -> None:
        self._command = (sys.executable, "-c", KEEPER, url, str(path))
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> bytes:
        """Start it; what it says of what it came holding."""
        self._process = await asyncio.create_subprocess_exec(*self._command, stdout=asyncio.subprocess.PIPE)
        return await self.said()

    async def said(self) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        return await asyncio.wait_for(self._process.stdout.readline(), 30)

    async def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        await self._process.wait()


@pytest.mark.faults
async def test_what_a_keeper_kept_is_not_sent_again_however_often_it_or_the_server_is_killed(tmp_path: Path) -> None:
    dice = random.Random(effort.seed(20_261_118))
    path = tmp_path / "kept"
    with ServerProcess(tmp_path / "data") as server:
        async with holdfast.connect(server.url) as client:
            await client.create_topic("alerts", redelivery_limit=1)
            await client.create_subscription("alerts", "relay")
            positions = [each.position for each in await client.topic("alerts").send_many(range(EVENTS))]
        keeper = Keeper(server.url, path)
        for _ in range(effort.rounds(short=4, long=25)):
            before = path.read_text().count("\n") if path.exists() else 0
            assert await keeper.start() == b"began %d 0\n" % before
            for _ in range(dice.randint(0, 30)):
                if before + 31 < EVENTS:
                    assert await keeper.said() == b"kept\n"
            if dice.random() < 0.5:
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            await keeper.kill()

        await keeper.start()
        while path.read_text().count("\n") < EVENTS:
            await keeper.said()
        await keeper.kill()

        lines = [tuple(map(int, line.split())) for line in path.read_text().splitlines()]
        assert Counter(position for position, _, _ in lines) == Counter(positions)
        assert {deliveries for _, _, deliveries in lines} == {0}
        async with holdfast.connect(server.url) as client:
            asked = Ranges.gather((each, each) for each in positions)
            async with client.subscribe("alerts", "relay", take_over=True, held=asked) as incoming:
                assert incoming.confirm(asked) == asked
            assert (await client.outcomes("alerts", asked)).confirmed == asked
