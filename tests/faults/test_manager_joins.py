"""A message manager that joins a cluster has all patterns before it takes a destination (rule 10, B15); over a real NATS."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import holdfast
from holdfast.channel.jetstream.settings import MIB, JetStreamSettings
from holdfast.node.clustered.cluster_node import ClusterNode
from holdfast.node.clustered.cluster_settings import ClusterSettings
from holdfast.node.settings import NodeSettings
from holdfast.wire import tcp
from tests.nats_server import NatsServer
from tests.waiting import until

pytestmark = pytest.mark.faults

TWO = {"m1": ("a",), "m2": ("a",)}


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@asynccontextmanager
async def node(folder: Path, nats: NatsServer, name: str, managers: Mapping[str, Sequence[str]]) -> AsyncIterator[str]:
    """A cluster of one node; its URL, when it is primary of all managers."""
    jetstream = JetStreamSettings(
        servers=(nats.url,), monitors=(nats.monitor,), replicas=1, size_bytes=128 * MIB, reserve_bytes=MIB, upkeep_bytes=8 * MIB
    )
    settings = ClusterSettings(name=name, managers=managers, nats=jetstream)
    opened = await ClusterNode.open(folder, settings, NodeSettings(name="a"), is_essential_replaced=True)
    listener = await tcp.listen("127.0.0.1", 0, opened.clients.accept)
    try:
        await until(lambda: all(each.is_primary for each in opened.members.values()), "all managers have a primary")
        yield f"holdfast://127.0.0.1:{listener.port}"
    finally:
        await listener.close()
        await opened.close()


async def test_a_durable_pattern_receives_from_a_manager_that_joined_after_it(tmp_path: Path, nats: NatsServer) -> None:
    name = f"test-{secrets.token_hex(4)}"
    async with node(tmp_path, nats, name, TWO) as url, holdfast.connect(url) as client:
        await client.create_subscription("plant.*", "all")
        await client.create_subscription("plant.*", "deleted")
        await client.delete_subscription("plant.*", "deleted")
        assert {(await client.topic(f"plant.{number}").send(number)).channel for number in range(2)} == {"m1", "m2"}

    async with node(tmp_path, nats, name, {**TWO, "m3": ("a",)}) as url, holdfast.connect(url) as client:
        channels = [(await client.topic(f"plant.{number}").send(number)).channel for number in range(2, 8)]

        async with client.subscribe("plant.*", "all") as incoming:
            seen = sorted([(await incoming.next(timeout=20)).data for _ in range(8)])
        assert seen == list(range(8))
        assert "m3" in channels
        assert {row["name"] for row in await client.subscriptions("plant.*")} == {"all"}
