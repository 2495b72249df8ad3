"""B11 over two message managers: SIGKILL of the server at random moments, while programs commit transactions over both. Each one
happened at both, or at neither, and nothing stays locked.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

import holdfast
from tests import effort
from tests.faults.test_transactions_killed import Moves, check_whole
from tests.managed_server_process import ManagedServerProcess
from tests.waiting import until

SEED = 20_261_118
COUNT = effort.rounds(short=1_200, long=30_000)
KILLS = effort.rounds(short=2, long=40)
COMMITS_BETWEEN = 20
# Locks are released within 5 s; the rest is for a machine that is busy with other tests.
FREE_S_MAX = 30.0


@pytest.mark.slow
@pytest.mark.faults
async def test_transactions_over_two_managers_of_a_server_killed_at_random_moments_are_whole_and_lock_nothing(
    tmp_path: Path,
) -> None:
    random.seed(effort.seed(SEED))
    with ManagedServerProcess(tmp_path / "data") as server:
        async with holdfast.connect(server.url) as client:
            for queue in ("in", "left", "right"):
                await client.create_queue(queue)
            assert {(await client._opened().at(queue)).channel for queue in ("in", "left")} == {"m1", "m2"}
            await client.queue("in").send_many(range(COUNT))
        moves = Moves(server.url)
        movers = [asyncio.create_task(moves.run()) for _ in range(3)]
        for _ in range(KILLS):
            await moves.reached(moves.committed + COMMITS_BETWEEN)
            await asyncio.sleep(random.uniform(0.0, 0.3))  # the moment is part of what is tried
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        await moves.reached(moves.committed + COMMITS_BETWEEN)
        moves.is_over = True
        await asyncio.wait_for(asyncio.gather(*movers), 90)
        await nothing_in_doubt(server.url)
        moved = await check_whole(server.url, COUNT)

    assert moved >= moves.committed


async def nothing_in_doubt(url: str) -> None:
    async with holdfast.connect(url, timeout=30) as client:

        async def is_so() -> bool:
            status = await client.status()
            return status["transactions_in_doubt"] == status["events_locked"] == 0

        await until(is_so, "no transaction is in doubt", FREE_S_MAX, 0.1)
