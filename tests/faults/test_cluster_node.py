"""Nodes of a cluster over real NATS servers: clients use any of them, and go on when the primary's node leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from tests.nats_server import NatsServer
from tests.running_cluster import MANAGER, Cluster, clustered
from tests.waiting import until

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


async def test_a_client_of_any_node_sends_and_receives(tmp_path: Path, nats: NatsServer) -> None:
    async with (
        clustered(tmp_path, nats) as cluster,
        holdfast.connect(cluster.url("a")) as at_primary,
        holdfast.connect(cluster.url("b")) as beside,
    ):
        await at_primary.queue("orders").send_many(range(10))
        await beside.queue("orders").send_many(range(10, 20))
        async with beside.queue("orders").receive() as incoming:
            seen = []
            for _ in range(20):
                event = await incoming.next(timeout=20)
                seen.append(event.data)
                await event.confirm()
        assert seen == list(range(20))
        assert (await at_primary.describe("orders"))["waiting"] == 0


async def test_clients_go_on_when_the_node_of_the_primary_leaves(tmp_path: Path, nats: NatsServer) -> None:
    async with clustered(tmp_path, nats) as cluster, holdfast.connect(cluster.url("b")) as client:
        seen: list[int] = []

        async def receive() -> None:
            async with client.queue("orders").receive() as incoming:
                async for event in incoming:
                    seen.append(event.data)
                    await event.confirm()

        receiving = asyncio.create_task(receive())
        for number in range(60):
            await client.queue("orders").send(number, timeout=30)
            if number == 20:
                await cluster.stop("a")
            if number == 30:
                await until(lambda: cluster.primary() == "b", "b takes over")
            if number == 40:
                await cluster.start("a")
        await until(lambda: len(seen) >= 60, "everything is received")
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)

        assert seen == list(range(60))
        assert cluster.primary() == "b"


async def test_a_deposed_primary_follows_again_and_takes_over_again(tmp_path: Path, nats: NatsServer) -> None:
    async with clustered(tmp_path, nats) as cluster, holdfast.connect(cluster.url("a", "b")) as client:
        await client.queue("orders").send(1)
        first, second = (cluster.nodes[name].node.members[MANAGER] for name in "ab")
        deposed = first.manager
        assert second.manager is not None
        await second.manager.take_over()
        await until(
            lambda: first.manager not in (None, deposed), "the deposed primary is opened anew"
        )  # reads its own claim again
        assert second.is_primary
        await cluster.stop("b")
        await until(lambda: first.is_primary, "it takes over again")

        async with client.queue("orders").receive() as incoming:
            assert (await incoming.next(timeout=20)).data == 1


def _end_links(cluster: Cluster, name: str) -> None:
    """A node loses its links; its listener takes others, and its client manager goes on."""
    for link in list(cluster.nodes[name].node.clients.links.values()):
        link.end(None)


async def test_a_session_that_moved_to_another_node_is_not_given_up_by_the_former(tmp_path: Path, nats: NatsServer) -> None:
    async with (
        clustered(tmp_path, nats) as cluster,
        holdfast.connect(cluster.url("a", "b"), timeout=30) as client,
        client.queue("orders").receive() as incoming,
    ):
        at = {name: cluster.nodes[name].node.clients for name in "ab"}
        former, other = ("a", "b") if at["a"].open_links else ("b", "a")
        (session,) = at[former].sessions
        await client.queue("orders").send("held")
        held = await incoming.next(20)

        _end_links(cluster, former)
        await until(lambda: session in at[other].links, "the session is at the other node")
        await until(lambda: session not in at[former].sessions, "its grace at the former one is over")
        await client.queue("orders").send("after")
        assert (await incoming.next(20)).data == "after"
        await held.confirm()
        leading = cluster.nodes[str(cluster.primary())].node.members[MANAGER].manager
        assert leading is not None and session in leading.directory.sessions()

        _end_links(cluster, other)
        await until(lambda: session in at[former].links, "it comes back to the first node, and is known there")
        await client.queue("orders").send("back")
        assert [(await incoming.next(20)).data for _ in range(1)] == ["back"]
        assert (await client.describe("orders"))["receivers"] == 1


async def test_a_subscription_in_use_at_another_node_is_not_said_to_be_left(tmp_path: Path, nats: NatsServer) -> None:
    async with clustered(tmp_path, nats) as cluster:
        one, two = holdfast.connect(cluster.url("a"), timeout=20), holdfast.connect(cluster.url("b"), timeout=20)
        async with one as holder, two as other:
            await holder.subscribe("news", name="only").open()
            with pytest.raises(holdfast.errors.SubscriptionInUse) as refused:
                async with other.subscribe("news", name="only"):
                    pass
            assert not refused.value.fields.get("is_holder_away")

            await cluster.nodes["a"].listener.close()
            async with other.subscribe("news", name="only"):  # asked again until the holder is given up
                pass
