"""A cluster of two message managers under load for many minutes: any process is killed or paused, at random.

`make soak` runs it for ten minutes, `make soak SOAK=60` for an hour; `make test-long` for two.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import effort
from tests.cluster_faults import ClusterFaults
from tests.cluster_load import ClusterLoad
from tests.cluster_processes import ClusterProcesses
from tests.nats_server import FORGOTTEN_SOCKETS, NatsCluster, forgotten_sockets

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.long, pytest.mark.filterwarnings(FORGOTTEN_SOCKETS)]

# Longer than a pause: nobody loses what it holds.
GRACE_MS = 20_000
MANAGERS = {"m1": ("a", "b"), "m2": ("b", "a")}
# Each transaction of the load is over both managers, and so is the pattern.
PLACEMENT = {"work": "m1", "done": "m2", "news.one": "m1", "news.two": "m2"}


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[NatsCluster]:
    with forgotten_sockets(), NatsCluster(tmp_path / "nats") as running:
        yield running


async def test_a_cluster_of_two_managers_survives_whatever_is_killed_or_paused(tmp_path: Path, nats: NatsCluster) -> None:
    dice = random.Random(effort.seed(20_261_119))
    done: Counter[str] = Counter()
    with ClusterProcesses(tmp_path, nats.servers, grace_ms=GRACE_MS, managers=MANAGERS, placement=PLACEMENT) as cluster:
        async with ClusterLoad((cluster.url, cluster.beside)).running() as load:
            await load.goes_on("at first")
            end = time.monotonic() + 60 * effort.soak_minutes()
            while time.monotonic() < end:
                faults = ClusterFaults(cluster, nats, load, dice).all()
                name = dice.choice(sorted(faults))
                began = time.monotonic()
                await faults[name]()
                await load.goes_on(f"after fault {done.total() + 1}: {name}")
                done[name] += 1
                print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
            await load.ended()
    print(f"{done.total()} faults: {dict(done)}")
