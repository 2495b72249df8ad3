"""A cluster starts in any order: a node waits for NATS, and while it waits, it can be stopped."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

import holdfast
from tests.cluster_processes import ClusterProcesses
from tests.nats_server import NatsServer
from tests.waiting import until

pytestmark = pytest.mark.faults


@pytest.mark.long  # it waits until several attempts to connect have failed
async def test_a_node_waits_for_nats_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    with NatsServer(tmp_path / "nats") as nats:
        cluster = ClusterProcesses(tmp_path, [nats], nodes=("a",))
        node = cluster.nodes["a"]
        nats.stop()

        starting = asyncio.create_task(asyncio.to_thread(node.start))
        try:
            await until(lambda: "cannot join cluster" in node.log, "the node says that it waits")
            assert not node.is_over
            nats.start()
            await starting
            async with holdfast.connect(cluster.url, timeout=30) as client:
                await client.queue("orders").send(1, timeout=30)

            node.kill()
            nats.stop()
            said = node.log.count("cannot join cluster")
            starting = asyncio.create_task(asyncio.to_thread(node.start))
            await until(lambda: node.log.count("cannot join cluster") > said, "it waits again")
            node.signal(signal.SIGTERM)
            await until(lambda: node.is_over, "it has ended")
        finally:
            node.__exit__()
            await asyncio.gather(starting, return_exceptions=True)
