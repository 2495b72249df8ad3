"""A real cluster of three NATS servers under load: what was acknowledged stays, whoever dies (B6, B23)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import nats
import pytest

from holdfast.channel.channel import Entry
from holdfast.channel.jetstream.jetstream_channel import JetStreamChannel
from holdfast.channel.jetstream.settings import JetStreamSettings, Names
from holdfast.errors import BadSetting, OutcomeUnknown, Unavailable
from tests import effort
from tests.nats_server import NatsCluster

pytestmark = [pytest.mark.faults, pytest.mark.slow]

MIB = 1 << 20
PATIENCE_S = 60.0
WINDOW = 8


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    with NatsCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def settings(cluster: NatsCluster, monitors: tuple[str, ...] | None = None) -> JetStreamSettings:
    return JetStreamSettings(
        servers=cluster.urls, monitors=cluster.monitors if monitors is None else monitors, size_bytes=256 * MIB, timeout_ms=3_000
    )


async def open_when_possible(name: str, wanted: JetStreamSettings) -> JetStreamChannel:
    """As the errors say: what is Unavailable is repeated. A server that was just started is not trusted with copies at once."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await JetStreamChannel.open(name, wanted)
            except Unavailable:
                await asyncio.sleep(0.1)


class Load:
    """Appends numbered commands without end, a window of them at a time, and keeps the receipts.

    A command that was refused, or never answered, is appended again: so it may stand twice, but never not at all.
    """

    def __init__(self, channel: JetStreamChannel) -> None:
        self._channel = channel
        self._next = 0
        self.accepted: dict[int, int] = {}  # command: entry
        self._progress = asyncio.Event()

    async def run(self) -> None:
        await asyncio.gather(*[self._run_one() for _ in range(WINDOW)])

    async def _run_one(self) -> None:
        while True:
            self._next += 1
            await self._append(self._next)

    async def _append(self, number: int) -> None:
        while True:
            try:
                self.accepted[number] = (await self._channel.append(b"%d" % number)).entry
                self._progress.set()
                return
            except (Unavailable, OutcomeUnknown):
                await asyncio.sleep(0.02)  # not to ask a cluster without a leader as fast as the loop can

    async def reached(self, count: int) -> None:
        """Waits until so many were accepted."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.accepted) < count:
                self._progress.clear()
                await self._progress.wait()


@asynccontextmanager
async def under_load(channel: JetStreamChannel) -> AsyncIterator[Load]:
    load = Load(channel)
    running = asyncio.create_task(load.run())
    try:
        yield load
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def read_all(channel: JetStreamChannel, end: int) -> list[Entry]:
    found: list[Entry] = []
    async with asyncio.timeout(PATIENCE_S):
        async for run in channel.read(1):
            found.extend(run)
            if found[-1].number >= end:
                break
    return found


async def leader_of(cluster: NatsCluster, name: str) -> str:
    connection = await nats.connect(list(cluster.urls))
    info = await connection.jetstream().stream_info(Names(name).stream)
    await connection.close()
    assert info.cluster is not None
    assert info.cluster.leader is not None
    return info.cluster.leader


@pytest.mark.parametrize("is_killed", effort.cases([True], long=[False]), ids=["kill -9", "SIGTERM"])
async def test_b6_nothing_accepted_is_lost_when_the_leading_server_ends_under_load(cluster: NatsCluster, is_killed: bool) -> None:
    name = f"load-{secrets.token_hex(4)}"
    channel = await open_when_possible(name, settings(cluster))
    reading = await open_when_possible(name, settings(cluster))

    async with under_load(channel) as load:
        await load.reached(300)
        live = asyncio.create_task(read_all(reading, 10**9))
        leader = cluster.server(await leader_of(cluster, name))
        leader.kill() if is_killed else leader.stop()
        await load.reached(len(load.accepted) + 300)
        leader.start()
        await load.reached(len(load.accepted) + 300)

    found = await read_all(reading, max(load.accepted.values()))
    assert not live.done()  # the reader that was there all the time waits for more; nothing made it give up
    live.cancel()
    assert [entry.number for entry in found] == list(range(1, found[-1].number + 1))
    commands = {entry.number: int(bytes(entry.command)) for entry in found}
    assert {entry: commands[entry] for entry in load.accepted.values()} == {e: c for c, e in load.accepted.items()}
    await channel.close()
    await reading.close()


async def test_b6_a_receipt_says_that_a_majority_of_the_copies_has_it(cluster: NatsCluster) -> None:
    channel = await open_when_possible(f"copies-{secrets.token_hex(4)}", settings(cluster))

    receipt = await channel.append(b"one")

    assert (receipt.copies, receipt.is_synced) == (2, True)
    await channel.close()


async def test_what_was_just_accepted_can_be_fetched_whichever_copy_answers(cluster: NatsCluster) -> None:
    channel = await open_when_possible(f"fetch-{secrets.token_hex(4)}", settings(cluster))

    for number in range(1, 101):
        receipt = await channel.append(b"%d" % number)
        assert await channel.fetch([receipt.entry]) == [b"%d" % number]

    await channel.close()


async def test_a_cluster_of_which_one_server_was_not_looked_at_is_refused(cluster: NatsCluster) -> None:
    with pytest.raises(BadSetting, match="not checked"):
        await open_when_possible(f"blind-{secrets.token_hex(4)}", settings(cluster, cluster.monitors[:2]))
