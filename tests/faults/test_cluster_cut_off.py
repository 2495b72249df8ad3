"""A network that falls apart: a primary, a backup, then the clients are cut off and healed, where namespaces are permitted.

    machine 1: node a      machine 2: node b      machine 3: NATS      machine 4: the clients

Two never both deliver: what a former primary said before the cut arrives after it, is refused, and is counted.
"""

from __future__ import annotations

import asyncio
import random
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import effort
from tests.cluster_load import ClusterLoad
from tests.cluster_processes import ClusterProcesses
from tests.nats_server import FORGOTTEN_SOCKETS, NatsServer, forgotten_sockets
from tests.network import Machine, Network, is_permitted
from tests.server_process import free_port
from tests.waiting import until

pytestmark = [
    pytest.mark.faults,
    pytest.mark.slow,
    pytest.mark.filterwarnings(FORGOTTEN_SOCKETS),
    pytest.mark.skipif(not is_permitted(), reason="network namespaces are not permitted here"),
]

# Longer than it takes another to claim (about 0.7 s), shorter than it takes NATS and its clients to give a connection up (2 s or
# more): so what was said into the cut comes out of it.
SHORT_S, LONG_S = (1.0, 2.0), (4.0, 8.0)
# Longer than a cut: nobody loses what it holds.
GRACE_MS = 30_000


@pytest.fixture
def network() -> Iterator[Network]:
    with forgotten_sockets(), Network(4) as made:
        yield made


def _refused(machine: Machine, port: int) -> int:
    """How many frames of older epochs a node has refused."""
    with machine.inside(), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return sum(int(float(count)) for count in re.findall(r"^holdfast_cluster_refused_epochs_total\{.*\} (\S+)$", text, re.M))


async def test_cut_off_and_healed_two_never_both_deliver(tmp_path: Path, network: Network) -> None:
    dice = random.Random(effort.seed(20_261_118))
    rounds = effort.rounds(short=1, long=15)
    one, two, nats_machine, clients = network.machines
    port = free_port()
    hosts = {"a": one.address, "b": two.address}
    nats = NatsServer(tmp_path / "nats", host=nats_machine.address)
    with nats_machine.inside():
        nats.start()
    options = ("--insecure", "--http", f"127.0.0.1:{port}")
    cluster = ClusterProcesses(tmp_path, [nats], grace_ms=GRACE_MS, options=options, hosts=hosts)
    try:
        for name, machine in (("a", one), ("b", two)):
            with machine.inside():
                cluster.nodes[name].start()
        with clients.inside():
            async with ClusterLoad((cluster.url, cluster.beside)).running() as load:
                await load.goes_on("at first")
                for round in range(rounds):
                    for cut in (one, two, clients):
                        await _cut(cut, dice.uniform(*dice.choice((SHORT_S, LONG_S) if effort.IS_LONG else (SHORT_S,))))
                        await load.goes_on(f"after {cut.address} was cut off, in round {round}")
                await load.ended()
        refused = _refused(one, port) + _refused(two, port)
        print(f"{refused} frames of older epochs were refused")
        assert refused > 0
    finally:
        for node in cluster.nodes.values():
            node.__exit__()
        nats.stop()


async def _cut(machine: Machine, seconds: float) -> None:
    machine.cut()
    try:
        await asyncio.sleep(seconds)
    finally:
        machine.heal()


async def test_a_network_can_be_cut_and_healed(network: Network) -> None:
    """The network of these tests does what it says."""
    one, two, *_ = network.machines
    with two.inside():
        server = await asyncio.start_server(lambda reader, writer: writer.close(), two.address, 5_000)

    async def is_reached() -> bool:
        with one.inside():
            try:
                async with asyncio.timeout(0.5):
                    _, writer = await asyncio.open_connection(two.address, 5_000)
            except (OSError, TimeoutError):
                return False
        writer.close()
        return True

    async with server:
        assert await is_reached()
        two.cut()
        assert not await is_reached()
        two.heal()
        await until(is_reached, "the machine is there again")
