"""Clocks that are wrong, or are set while everything runs: intervals are what they are, and times are the server's."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import TimedOut
from holdfast.node.clock import SystemClock
from tests.running_server import SETTINGS, running
from tests.waiting import until

HOURS_2 = 2 * 3600 * 10**9


class Machine:
    """The clock of the server's machine, which differs from the client's by so much."""

    def __init__(self) -> None:
        self.ahead_ns = 0

    def clock(self) -> SystemClock:
        return SystemClock(lambda: time.time_ns() + self.ahead_ns)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def cut(client: holdfast.Client) -> None:
    """The program is killed: its link is gone and nobody makes another."""
    connection = client._connection
    assert connection is not None
    keeper = connection._keeper
    assert keeper.link is not None
    for task in connection._tasks:
        task.cancel()
    keeper.link.close()


async def test_a_killed_recipients_subscription_is_free_again_although_the_clock_was_set_back(
    tmp_path: Path, machine: Machine
) -> None:
    async with (
        running(tmp_path / "data", SETTINGS, machine.clock()) as server,
        holdfast.connect(server.url) as client,
        holdfast.connect(server.url) as other,
    ):
        incoming = client.subscribe("prices", "audit")
        await incoming.open()
        await client.topic("prices").send(1)

        cut(client)
        await until(lambda: not server.node.clients.links or len(server.node.clients.links) == 1, "the link is lost")
        machine.ahead_ns = -HOURS_2

        async with other.subscribe("prices", "audit") as again:
            assert (await again.next(timeout=10)).data == 1


async def test_space_is_freed_although_the_clock_was_set_back(tmp_path: Path, machine: Machine) -> None:
    async with (
        running(tmp_path / "data", dataclasses.replace(SETTINGS, snapshot_bytes=1 << 30), machine.clock()) as server,
        holdfast.connect(server.url) as client,
        client.queue("orders").receive() as incoming,
    ):
        for number in range(80):  # some five times the journal's size goes through it
            if number == 40:
                machine.ahead_ns = -HOURS_2
            await client.unblocked(timeout=10)
            await client.queue("orders").send(bytes(120_000))
            await (await incoming.next(timeout=10)).confirm()
            await incoming.settled()


async def test_what_is_released_for_a_moment_comes_back_although_the_clock_was_set_back(tmp_path: Path, machine: Machine) -> None:
    async with (
        running(tmp_path / "data", SETTINGS, machine.clock()) as server,
        holdfast.connect(server.url) as client,
        client.queue("orders").receive() as incoming,
    ):
        await client.queue("orders").send(1)
        await (await incoming.next(timeout=10)).release(delay=0.2)
        await incoming.settled()

        machine.ahead_ns = -HOURS_2

        assert (await incoming.next(timeout=10)).redelivered


@pytest.mark.parametrize("ahead_ns", [HOURS_2, -HOURS_2])
async def test_a_time_to_live_and_a_delay_mean_the_servers_clock(tmp_path: Path, machine: Machine, ahead_ns: int) -> None:
    machine.ahead_ns = ahead_ns
    async with running(tmp_path / "data", SETTINGS, machine.clock()) as server, holdfast.connect(server.url) as client:
        queue = client.queue("orders")
        async with queue.receive() as incoming:
            await queue.send("delayed", delay_ms=300)
            with pytest.raises(TimedOut):
                await incoming.next(timeout=0.1)
            await (await incoming.next(timeout=10)).confirm()

            await queue.send("mortal", ttl_ms=60_000)
            event = await incoming.next(timeout=10)
            left_ms = event.expires_at_ms - server.node.clients.now_ms()
            assert 30_000 < left_ms < 61_000
            await event.confirm()

        await queue.send("short", ttl_ms=1)
        async with client.queue("_DMQ").receive() as dead:
            assert (await dead.next(timeout=10)).data == "short"


async def test_a_client_learns_from_heartbeats_that_the_servers_clock_was_set(tmp_path: Path, machine: Machine) -> None:
    settings = dataclasses.replace(SETTINGS, heartbeat_ms=40)
    async with running(tmp_path / "data", settings, machine.clock()) as server, holdfast.connect(server.url) as client:
        assert client._connection is not None
        server_time = client._connection.server_time

        machine.ahead_ns = HOURS_2

        await until(lambda: abs(server_time.now_ms() - server.node.clients.now_ms()) < 1_000, "the client knows the new time")


async def test_a_delay_in_a_transaction_counts_from_the_send(tmp_path: Path) -> None:
    async with (
        running(tmp_path / "data") as server,
        holdfast.connect(server.url) as client,
        client.queue("orders").receive() as incoming,
    ):
        async with client.transaction() as transaction:
            begun = time.monotonic()
            await transaction.queue("orders").send("first", delay_ms=400)
            await until(lambda: time.monotonic() > begun + 0.4, "the first is due")
            sent = time.monotonic()
            await transaction.queue("orders").send("second", delay_ms=400)
        await client.queue("orders").send("after the commit", delay_ms=200)

        came = {(await incoming.next(timeout=60)).data: time.monotonic() for _ in range(3)}

        assert next(iter(came)) == "first"  # counted from the commit, it would come 400 ms later
        assert came["second"] >= sent + 0.35
