"""Flow control across a cluster (B12): full destinations, a full channel, and a message manager that is not heard."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.channel.jetstream.settings import MIB
from holdfast.errors import Blocked
from tests.nats_server import NatsServer
from tests.running_cluster import MANAGER, clustered
from tests.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.slow]

HIGH = 100


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


async def _fill(client: holdfast.Client, queue: str, data: object) -> int:
    """Send one by one until the server takes no more; how many it took."""
    taken = 0
    with pytest.raises(Blocked):
        while True:
            await client.queue(queue).try_send(data, timeout=30)
            taken += 1
    return taken


async def _send_at_last(client: holdfast.Client, queue: str, data: object) -> None:
    """Send it when there is room again. Where a node learned a moment before its client that there is none, it is refused."""

    async def is_sent() -> bool:
        try:
            await client.queue(queue).send(data, timeout=60)
        except Blocked:
            return False
        return True

    await until(is_sent, "there is room again")


async def test_a_queue_is_filled_from_two_nodes_up_to_its_limit_and_both_go_on_when_there_is_room(
    tmp_path: Path, nats: NatsServer
) -> None:
    async with (
        clustered(tmp_path, nats) as cluster,
        holdfast.connect(cluster.url("a"), timeout=30) as at_primary,
        holdfast.connect(cluster.url("b"), timeout=30) as beside,
    ):
        await at_primary.create_queue("narrow", events_max=HIGH)
        await at_primary.create_queue("wide")

        taken = await asyncio.gather(_fill(at_primary, "narrow", 1), _fill(beside, "narrow", 2))
        assert HIGH <= sum(taken) <= 1.25 * HIGH
        assert (await beside.describe("narrow"))["waiting"] == sum(taken)
        await beside.queue("wide").try_send(1)  # others are not held back

        late = [asyncio.create_task(each.queue("narrow").send("late", timeout=60)) for each in (at_primary, beside)]
        async with beside.queue("narrow").receive() as incoming:
            for _ in range(sum(taken) + 2):
                await (await incoming.next(timeout=30)).confirm()
        await asyncio.gather(*late)


async def test_a_full_channel_takes_confirmations_and_then_events_again(tmp_path: Path, nats: NatsServer) -> None:
    async with clustered(tmp_path, nats, size_bytes=16 * MIB) as cluster:
        channel = cluster.nodes["a"].node.channels[MANAGER]
        async with (
            holdfast.connect(cluster.url("a"), timeout=60) as at_primary,
            holdfast.connect(cluster.url("b"), timeout=60) as beside,
        ):
            body = bytes(64_000)
            taken = await asyncio.gather(_fill(at_primary, "orders", body), _fill(beside, "orders", body))
            assert channel.pressure.is_short
            assert sum(taken) * len(body) > 5 * MIB

            late = asyncio.create_task(_send_at_last(beside, "orders", "late"))
            async with beside.queue("orders").receive() as incoming:
                for _ in range(sum(taken)):
                    await (await incoming.next(timeout=30)).confirm()
                await late
                assert (await incoming.next(timeout=30)).data == "late"
            await until(lambda: not channel.pressure.is_short, "there is room again")


async def test_events_wait_without_an_error_while_the_message_manager_is_not_heard(tmp_path: Path, nats: NatsServer) -> None:
    async with clustered(tmp_path, nats, copies=("a",)) as cluster, holdfast.connect(cluster.url("b"), timeout=60) as client:
        held, queue = cluster.nodes["b"].node.held[MANAGER], client.queue("orders")
        await queue.send(0)
        await cluster.stop("a")
        sent = 1
        sending = []
        while not held:
            sending.append(asyncio.create_task(queue.send(sent, timeout=60)))
            sent += 1
            await asyncio.sleep(0.02)
        await cluster.start("a")
        await asyncio.gather(*sending)

        async with queue.receive() as incoming:
            assert [(await incoming.next(timeout=30)).data for _ in range(sent)] == list(range(sent))
