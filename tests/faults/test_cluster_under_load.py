"""A cluster under load with every kind of fault in turn: nothing receipted is lost, invented, or out of order (B10, B23)."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import effort
from tests.cluster_faults import ClusterFaults
from tests.cluster_load import ClusterLoad
from tests.cluster_processes import ClusterProcesses
from tests.nats_server import FORGOTTEN_SOCKETS, NatsCluster, forgotten_sockets

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.filterwarnings(FORGOTTEN_SOCKETS)]

# Longer than a pause: nobody loses what it holds.
GRACE_MS = 20_000


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    with forgotten_sockets(), NatsCluster(tmp_path_factory.mktemp("nats")) as running:
        yield running


async def _survive(folder: Path, nats: NatsCluster, rounds: int, *wanted: str) -> None:
    """Each of the faults whose name begins as one of these, in each round."""
    dice = random.Random(effort.seed(20_261_118))
    with ClusterProcesses(folder, nats.servers, grace_ms=GRACE_MS) as cluster:
        async with ClusterLoad((cluster.url, cluster.beside)).running() as load:
            await load.goes_on("at first")
            faults = [
                (name, do) for name, do in ClusterFaults(cluster, nats, load, dice).all().items() if name.startswith(wanted)
            ]
            for round in range(rounds):
                for name, fault in dice.sample(faults, len(faults)):
                    began = time.monotonic()
                    await fault()
                    await load.goes_on(f"after {name}, in round {round}")
                    print(f"{name}: {time.monotonic() - began:.1f} s")
            await load.ended()


@pytest.mark.long
async def test_a_cluster_under_load_survives_each_kind_of_fault(tmp_path: Path, nats: NatsCluster) -> None:
    await _survive(tmp_path, nats, 4, "")


@pytest.mark.long
async def test_a_cluster_goes_on_by_itself_each_time_the_majority_of_nats_was_paused(tmp_path: Path, nats: NatsCluster) -> None:
    await _survive(tmp_path, nats, 15, "the majority")
