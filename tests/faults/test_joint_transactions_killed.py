"""B11 over two message managers: SIGKILL of the server at random moments, while programs commit transactions over both. Each one
happened at both, or at neither, and nothing stays locked.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

import holdfast
from tests import effort
from tests.faults.test_transactions_killed import Moves
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
        async with holdfast.connect(server.url, timeout=30) as client:
            await nothing_in_doubt(client)
            waiting, left, right = [await taken(client, queue) for queue in ("in", "left", "right")]

    assert left == right, "a transaction happened in part"
    assert waiting + left == Counter(range(COUNT)), "an event was lost, or moved twice"
    assert left.total() >= moves.committed


async def nothing_in_doubt(client: holdfast.Client) -> None:
    async def is_so() -> bool:
        status = await client.status()
        return status["transactions_in_doubt"] == status["events_locked"] == 0

    await until(is_so, "no transaction is in doubt", FREE_S_MAX, 0.1)


async def taken(client: holdfast.Client, queue: str) -> Counter[object]:
    """All events of a queue; none of them is with anybody else."""
    found: Counter[object] = Counter()
    async with client.queue(queue).receive() as incoming:
        for _ in range((await client.describe(queue))["waiting"]):
            event = await incoming.next(30)
            found[event.data] += 1
            await event.confirm()
    return found
