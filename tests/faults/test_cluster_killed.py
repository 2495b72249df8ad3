"""A cluster whose nodes are killed with SIGKILL under load: nothing receipted is lost or out of order (B10, B23)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import holdfast
from tests import effort
from tests.cluster_processes import ClusterProcesses
from tests.nats_server import NatsCluster, forgotten_sockets
from tests.waiting import until

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    with forgotten_sockets(), NatsCluster(tmp_path_factory.mktemp("nats")) as running:
        yield running


async def test_nodes_killed_in_turn_under_load_lose_nothing(tmp_path: Path, nats: NatsCluster) -> None:
    dice = random.Random(effort.seed(20_261_120))
    rounds = effort.rounds(short=3, long=30)
    with ClusterProcesses(tmp_path, nats.servers) as cluster:
        stop = asyncio.Event()
        receipted: list[int] = []
        seen: list[tuple[int, bool]] = []

        async def send(client: holdfast.Client) -> None:
            number = 0
            while not stop.is_set():
                await client.queue("orders").send(number, timeout=60)
                receipted.append(number)
                number += 1
                await asyncio.sleep(0.002)

        async def receive(client: holdfast.Client) -> None:
            async with client.queue("orders").receive() as incoming:
                async for event in incoming:
                    seen.append((event.data, event.redelivered))
                    await event.confirm()

        async with holdfast.connect(cluster.url, timeout=60) as producer, holdfast.connect(cluster.url, timeout=60) as recipient:
            working = [asyncio.create_task(send(producer)), asyncio.create_task(receive(recipient))]
            await until(lambda: len(seen) > 10, "events flow")
            for _ in range(rounds):
                node = cluster.nodes[dice.choice(list(cluster.nodes))]
                node.kill()
                count = len(seen)
                await until(lambda count=count: len(seen) > count + 20, "events flow again, although a node is dead")  # type: ignore[misc]
                await asyncio.to_thread(node.start)
                await asyncio.sleep(dice.uniform(0.1, 1.0))
            stop.set()
            await working[0]
            await until(lambda: {number for number, _ in seen} >= set(receipted), "everything receipted is received")
            working[1].cancel()
            with suppress(asyncio.CancelledError):
                await working[1]

    fresh = [number for number, is_redelivered in seen if not is_redelivered]
    assert fresh == sorted(set(fresh))
    assert {number for number, _ in seen} == set(receipted)
