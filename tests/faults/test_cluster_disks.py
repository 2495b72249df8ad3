"""Disks of a cluster: one NATS server has a full disk, or a damaged file. It is named, and the service goes on."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import nats as nats_client
import pytest

import holdfast
from holdfast.channel.jetstream.settings import Names
from tests import effort
from tests.cluster_faults import ClusterFaults
from tests.cluster_load import ClusterLoad
from tests.cluster_processes import ClusterProcesses
from tests.contract.test_jetstream_damage import flip_a_bit
from tests.nats_server import FORGOTTEN_SOCKETS, NatsCluster, forgotten_sockets
from tests.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.long, pytest.mark.filterwarnings(FORGOTTEN_SOCKETS)]

STARTS_MAX = 20


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[NatsCluster]:
    with forgotten_sockets(), NatsCluster(tmp_path / "nats") as running:
        yield running


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The folder of the third NATS server is a small file system."""
    place = tmp_path / "nats" / "n3"
    place.mkdir(parents=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.decode()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


async def _make_leader(nats: NatsCluster, cluster: ClusterProcesses, server: str) -> None:
    connection = await nats_client.connect(servers=list(nats.urls))
    try:
        stream = Names(f"{cluster.name}-m1").stream
        asked = json.dumps({"placement": {"preferred": server}}).encode()
        await connection.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{stream}", asked, timeout=5)
    finally:
        await connection.close()


@pytest.mark.parametrize("whose", ["leader", "follower"])
async def test_a_full_disk_at_one_nats_server_stops_nothing(
    tmp_path: Path, small_disk: Path, nats: NatsCluster, whose: str
) -> None:
    with ClusterProcesses(tmp_path, nats.servers, grace_ms=20_000) as cluster:
        async with ClusterLoad((cluster.url, cluster.beside)).running() as load:
            await load.goes_on("at first")
            faults = ClusterFaults(cluster, nats, load, random.Random(effort.seed(1)))
            wanted = "n3" if whose == "leader" else "n1"
            if await faults.leader() != wanted:
                await _make_leader(nats, cluster, wanted)

            async def leads() -> bool:
                return await faults.leader() == wanted

            await until(leads, f"{wanted} leads")
            await load.goes_on("before the disk is full")
            filler = small_disk / "filler"
            await asyncio.to_thread(_fill, filler)
            for _ in range(10):
                await load.goes_on(f"although the disk of a {whose} is full")
            print((small_disk / "nats.log").read_text()[-1500:])

            filler.unlink()
            nats.server("n3").kill()
            await asyncio.to_thread(nats.server("n3").start)
            await asyncio.to_thread(nats.wait_until_ready)
            await load.goes_on("after there was room again")
            await load.ended()


def _fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass


async def test_a_flipped_bit_in_one_replica_is_named_and_nothing_is_lost(tmp_path: Path, nats: NatsCluster) -> None:
    with ClusterProcesses(tmp_path, nats.servers) as cluster:
        wanted = [f"event {number:03} {'.' * 200}" for number in range(40)]
        async with holdfast.connect(cluster.url, timeout=60) as client:
            for data in wanted:
                await client.queue("kept").send(data, timeout=60)
            victim = nats.servers[1]
            victim.stop()
            flip_a_bit(victim, f"{cluster.name}-m1", b"event 020")
            victim.start()
            await asyncio.to_thread(nats.wait_until_ready)

            # Chance decides whose copy is read; a node that starts reads everything.
            for number in range(STARTS_MAX):
                if any(f"on server {victim.name} is damaged" in node.log for node in cluster.nodes.values()):
                    break
                node = list(cluster.nodes.values())[number % len(cluster.nodes)]
                node.kill()
                await asyncio.to_thread(node.start)
                async with client.queue("kept").browse() as events:
                    assert [event.data async for event in events] == wanted
            print(f"named after {number} starts")
            assert any(f"on server {victim.name} is damaged" in node.log for node in cluster.nodes.values())

            await client.queue("kept").send("it goes on", timeout=60)
            async with client.queue("kept").receive() as incoming:
                received = [await incoming.next(timeout=60) for _ in range(len(wanted) + 1)]
            assert [event.data for event in received] == [*wanted, "it goes on"]
