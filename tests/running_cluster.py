"""A cluster in the test's own loop, so that a test can look into its nodes: two of them, over a real NATS server."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.channel.jetstream.settings import MIB, JetStreamSettings
from holdfast.node.clustered.cluster_node import ClusterNode
from holdfast.node.clustered.cluster_settings import ClusterSettings
from holdfast.node.settings import NodeSettings
from holdfast.wire import tcp
from tests.nats_server import NatsServer
from tests.waiting import until

MANAGER = "m1"


class RunningNode:
    def __init__(self, node: ClusterNode, listener: tcp.Listener) -> None:
        self.node = node
        self.listener = listener

    async def close(self) -> None:
        await self.listener.close()
        await self.node.close()


class Cluster:
    def __init__(self, folder: Path, nats: NatsServer, size_bytes: int = 128 * MIB, copies: Sequence[str] = ("a", "b")) -> None:
        """`copies`: the nodes that have a copy of the message manager."""
        self.folder = folder
        jetstream = JetStreamSettings(
            servers=(nats.url,),
            monitors=(nats.monitor,),
            replicas=1,
            size_bytes=size_bytes,
            reserve_bytes=MIB,
            upkeep_bytes=8 * MIB,
        )
        self.settings = ClusterSettings(name=f"test-{secrets.token_hex(4)}", managers={MANAGER: copies}, nats=jetstream)
        self.nodes: dict[str, RunningNode] = {}

    async def start(self, name: str) -> None:
        data = self.folder / name
        data.mkdir(exist_ok=True)
        node = await ClusterNode.open(data, self.settings, NodeSettings(name=name, session_grace_ms=1_000, start_grace_ms=500))
        self.nodes[name] = RunningNode(node, await tcp.listen("127.0.0.1", 0, node.clients.accept))

    async def stop(self, name: str) -> None:
        await self.nodes.pop(name).close()

    def primary(self) -> str | None:
        found = [
            name for name, each in self.nodes.items() if MANAGER in each.node.members and each.node.members[MANAGER].is_primary
        ]
        assert len(found) < 2
        return found[0] if found else None

    def url(self, *names: str) -> str:
        return "holdfast://" + ",".join(f"127.0.0.1:{self.nodes[name].listener.port}" for name in names)


@asynccontextmanager
async def clustered(
    folder: Path, nats: NatsServer, size_bytes: int = 128 * MIB, copies: Sequence[str] = ("a", "b")
) -> AsyncIterator[Cluster]:
    cluster = Cluster(folder, nats, size_bytes, copies)
    try:
        await cluster.start("a")
        await until(lambda: cluster.primary() == "a", "a is primary")
        await cluster.start("b")
        yield cluster
    finally:
        for name in list(cluster.nodes):
            await cluster.stop(name)
