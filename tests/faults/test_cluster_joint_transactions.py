"""Transactions over two message managers of a cluster whose nodes are killed with SIGKILL: each happened at both, or at neither,
and nothing stays locked (B11, rule 2).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from tests import effort
from tests.cluster_processes import ClusterProcesses
from tests.faults.test_joint_transactions_killed import nothing_in_doubt, taken
from tests.faults.test_transactions_killed import Moves
from tests.nats_server import NatsCluster, forgotten_sockets
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.faults, pytest.mark.long]

COUNT = 20_000
KILLS = effort.rounds(short=4, long=12)
COMMITS_BETWEEN = 10


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    with forgotten_sockets(), NatsCluster(tmp_path_factory.mktemp("nats")) as running:
        yield running


async def test_transactions_over_two_managers_are_whole_whichever_node_is_killed(tmp_path: Path, nats: NatsCluster) -> None:
    dice = random.Random(effort.seed(20_261_121))
    managers = {"m1": ["a", "b"], "m2": ["b", "c"]}
    with ClusterProcesses(tmp_path, nats.servers, ("a", "b", "c"), managers=managers) as cluster:
        async with holdfast.connect(cluster.url, timeout=60) as client:
            for queue in ("in", "left", "right"):
                await client.create_queue(queue)
            assert {(await client._opened().at(queue)).channel for queue in ("in", "left", "right")} == {"m1", "m2"}
            await client.queue("in").send_many(range(COUNT))
        moves = Moves(cluster.url)
        movers = [asyncio.create_task(moves.run()) for _ in range(3)]
        for _ in range(KILLS):
            await moves.reached(moves.committed + COMMITS_BETWEEN)
            await asyncio.sleep(dice.uniform(0.0, 0.5))  # the moment is part of what is tried
            node = cluster.nodes[dice.choice(list(cluster.nodes))]
            await asyncio.to_thread(node.kill)
            await moves.reached(moves.committed + COMMITS_BETWEEN)
            await asyncio.to_thread(node.start)
        moves.is_over = True
        await asyncio.wait_for(asyncio.gather(*movers), 120)
        async with holdfast.connect(cluster.url, timeout=60) as client:
            await nothing_in_doubt(client)

            async def is_alone() -> bool:
                return bool((await client.status())["sessions"] <= 2)

            await until(is_alone, "the sessions of the movers are given up", 120)
            waiting, left, right = [await taken(client, queue) for queue in ("in", "left", "right")]

    assert left == right, "a transaction happened in part"
    assert waiting + left == Counter(range(COUNT)), "an event was lost, or moved twice"
    assert left.total() >= moves.committed
