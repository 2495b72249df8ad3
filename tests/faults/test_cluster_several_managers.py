"""Two message managers with a backup each, over three nodes that are processes: a primary is killed, and both go on (B2, B15)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import holdfast
from tests import effort
from tests.cluster_processes import ClusterProcesses
from tests.nats_server import NatsCluster, forgotten_sockets
from tests.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.slow]

MANAGERS = {"m1": ("a", "b"), "m2": ("b", "c")}
QUEUES = ("orders", "invoices")


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    with forgotten_sockets(), NatsCluster(tmp_path_factory.mktemp("nats")) as running:
        yield running


async def primaries(client: holdfast.Client) -> dict[str, str | None]:
    return {each["name"]: each["primary"] for each in (await client.cluster_status())["managers"]}


async def test_a_primary_is_killed_and_events_of_both_managers_go_on(tmp_path: Path, nats: NatsCluster) -> None:
    rounds = effort.rounds(short=1, long=12)
    with ClusterProcesses(tmp_path, nats.servers, ("a", "b", "c"), managers=MANAGERS) as cluster:
        stop = asyncio.Event()
        receipted: dict[str, list[int]] = {queue: [] for queue in QUEUES}
        seen: dict[str, list[tuple[int, bool]]] = {queue: [] for queue in QUEUES}

        async def send(client: holdfast.Client, queue: str) -> None:
            number = 0
            while not stop.is_set():
                await client.queue(queue).send(number, timeout=60)
                receipted[queue].append(number)
                number += 1

        async def receive(client: holdfast.Client, queue: str) -> None:
            async with client.queue(queue).receive() as incoming:
                async for event in incoming:
                    seen[queue].append((event.data, event.redelivered))
                    await event.confirm()

        async with holdfast.connect(cluster.url, timeout=60) as producer, holdfast.connect(cluster.url, timeout=60) as recipient:
            for queue in QUEUES:
                await producer.create_queue(queue)
            assert {(await producer.describe(queue))["name"] for queue in QUEUES} == set(QUEUES)
            sending = [asyncio.create_task(send(producer, queue)) for queue in QUEUES]
            receiving = [asyncio.create_task(receive(recipient, queue)) for queue in QUEUES]
            await until(lambda: all(len(each) > 10 for each in seen.values()), "events of both managers flow")
            for number in range(rounds):
                manager = ("m1", "m2")[number % 2]
                name = (await primaries(producer))[manager]
                assert name is not None
                cluster.nodes[name].kill()
                before = {queue: len(each) for queue, each in seen.items()}
                await until(
                    lambda before=before: all(len(seen[queue]) > before[queue] + 20 for queue in QUEUES),  # type: ignore[misc]
                    f"events of both managers flow again, although the primary of {manager} is dead",
                )
                await asyncio.to_thread(cluster.nodes[name].start)
            stop.set()
            await asyncio.gather(*sending)
            for queue in QUEUES:
                await until(
                    lambda queue=queue: {number for number, _ in seen[queue]} >= set(receipted[queue]),  # type: ignore[misc]
                    f"everything receipted is received from {queue}",
                )
            for task in receiving:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    for queue in QUEUES:
        fresh = [number for number, is_redelivered in seen[queue] if not is_redelivered]
        assert fresh == sorted(set(fresh))
        assert {number for number, _ in seen[queue]} == set(receipted[queue])
