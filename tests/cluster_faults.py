"""Faults of a real cluster under load, each begun, held for a while, and ended: signals to nodes and to NATS servers."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable, Sequence

import nats as nats_client

from holdfast.channel.jetstream.settings import Names
from tests.cluster_load import ClusterLoad
from tests.cluster_processes import ClusterProcesses
from tests.nats_server import NatsCluster, NatsServer
from tests.server_process import ServerProcess

# Longer than it takes another to claim, shorter than the grace of sessions.
PAUSE_S = 3.0
# Longer than an attempt to append, and longer than NATS waits for a new leader.
MAJORITY_PAUSE_S = 8.0

Fault = Callable[[], Awaitable[None]]


class ClusterFaults:
    """Each method is one fault, from its beginning to its end. Events flow during those in which they must."""

    def __init__(self, cluster: ClusterProcesses, nats: NatsCluster, load: ClusterLoad, dice: random.Random) -> None:
        self._cluster = cluster
        self._nats = nats
        self._load = load
        self._dice = dice

    def all(self) -> dict[str, Fault]:
        nodes = list(self._cluster.nodes)
        return {
            **{f"node {name} is paused": lambda name=name: self.pause_node(name) for name in nodes},  # type: ignore[misc]
            **{f"node {name} is killed": lambda name=name: self.kill_node(name) for name in nodes},  # type: ignore[misc]
            "all nodes are killed": self.kill_nodes,
            "the leader of NATS is killed": self.kill_leader,
            "a NATS server is killed": self.kill_server,
            "a NATS server is paused": self.pause_server,
            "the majority of NATS is paused": self.pause_majority,
            "everything is killed": self.kill_everything,
        }

    async def pause_node(self, name: str) -> None:
        node = self._cluster.nodes[name]
        node.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(PAUSE_S)
        finally:
            node.signal(signal.SIGCONT)

    async def kill_node(self, name: str) -> None:
        node = self._cluster.nodes[name]
        node.kill()
        await self._load.goes_on(f"although node {name} is dead")
        await asyncio.to_thread(node.start)

    async def kill_nodes(self) -> None:
        nodes = list(self._cluster.nodes.values())
        for node in nodes:
            node.kill()
        self._dice.shuffle(nodes)
        for node in nodes:
            await asyncio.to_thread(node.start)

    async def kill_leader(self) -> None:
        await self._kill(self._nats.server(await self.leader()))

    async def kill_server(self) -> None:
        await self._kill(self._dice.choice(self._nats.servers))

    async def _kill(self, server: NatsServer) -> None:
        server.kill()
        await self._load.goes_on(f"although NATS server {server.name} is dead")
        await asyncio.to_thread(server.start)
        await asyncio.to_thread(self._nats.wait_until_ready)

    async def pause_server(self) -> None:
        """What it was sent before it was paused arrives when it goes on: late commands."""
        await self._pause([self._dice.choice(self._nats.servers)], PAUSE_S)

    async def pause_majority(self) -> None:
        await self._pause(self._dice.sample(self._nats.servers, 2), MAJORITY_PAUSE_S)

    async def _pause(self, servers: Sequence[NatsServer], seconds: float) -> None:
        for server in servers:
            server.pause()
        try:
            await asyncio.sleep(seconds)
        finally:
            for server in servers:
                server.resume()

    async def kill_everything(self) -> None:
        """All at once, and started in any order: nodes wait for NATS, and NATS servers for each other."""
        everything: list[NatsServer | ServerProcess] = [*self._nats.servers, *self._cluster.nodes.values()]
        for each in everything:
            each.kill()
        self._dice.shuffle(everything)
        await asyncio.gather(*(asyncio.to_thread(each.start) for each in everything))
        await asyncio.to_thread(self._nats.wait_until_ready)

    async def leader(self) -> str:
        """The name of the NATS server that leads the channel."""
        connection = await nats_client.connect(servers=list(self._nats.urls))
        try:
            info = await connection.jetstream().stream_info(Names(f"{self._cluster.name}-m1").stream)
        finally:
            await connection.close()
        assert info.cluster is not None and info.cluster.leader is not None
        return info.cluster.leader
