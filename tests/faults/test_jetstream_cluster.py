"""A real cluster of three NATS servers under load: what was acknowledged stays, whoever dies (B6, B23)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest

from holdfast.channel.channel import Entry, Receipt
from holdfast.channel.jetstream.jetstream_channel import JetStreamChannel
from holdfast.channel.jetstream.settings import JetStreamSettings, Names
from holdfast.errors import BadSetting, OutcomeUnknown, Unavailable
from tests import effort
from tests.contract.test_jetstream_damage import flip_a_bit
from tests.nats_server import FORGOTTEN_SOCKETS, NatsCluster, NatsServer, forgotten_sockets
from tests.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.filterwarnings(FORGOTTEN_SOCKETS)]

MIB = 1 << 20
PATIENCE_S = 60.0
WINDOW = 8


@pytest.fixture(autouse=True, scope="module")
def sockets() -> Iterator[None]:
    with forgotten_sockets():
        yield


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    with NatsCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def settings(cluster: NatsCluster, **others: Any) -> JetStreamSettings:
    chosen = {"servers": cluster.urls, "monitors": cluster.monitors, "size_bytes": 256 * MIB, "timeout_ms": 3_000, **others}
    return JetStreamSettings(**chosen)


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

    The channel repeats by itself what no server takes: an error is a failure of the test.
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
        self.accepted[number] = (await self._channel.append(b"%d" % number)).entry
        self._progress.set()

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
        assert not running.done(), running.exception()
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


def end(server: NatsServer, how: str) -> None:
    {"kill -9": server.kill, "SIGTERM": server.stop, "SIGSTOP": server.pause}[how]()


@pytest.mark.parametrize("how", effort.cases(["kill -9"], long=["SIGTERM", "SIGSTOP"]))
async def test_b6_appends_wait_for_an_election_and_stand_once_when_the_leading_server_ends_under_load(
    cluster: NatsCluster, how: str
) -> None:
    name = f"load-{secrets.token_hex(4)}"
    channel = await open_when_possible(name, settings(cluster))
    reading = await open_when_possible(name, settings(cluster))

    async with under_load(channel) as load:
        await load.reached(300)
        live = asyncio.create_task(read_all(reading, 10**9))
        for _ in range(effort.rounds(short=1, long=5)):
            leader = cluster.server(await leader_of(cluster, name))
            end(leader, how)
            await load.reached(len(load.accepted) + 300)
            leader.resume() if how == "SIGSTOP" else leader.start()
            await asyncio.to_thread(cluster.wait_until_ready)
            await load.reached(len(load.accepted) + 300)

    found = await read_all(reading, max(load.accepted.values()))
    assert not live.done()  # the reader that was there all the time waits for more; nothing made it give up
    live.cancel()
    assert [entry.number for entry in found] == list(range(1, found[-1].number + 1))
    commands = {entry.number: int(bytes(entry.command)) for entry in found}
    assert {entry: commands[entry] for entry in load.accepted.values()} == {e: c for c, e in load.accepted.items()}
    assert len(set(commands.values())) == len(commands), "a command that was repeated stands once"
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
        await open_when_possible(f"blind-{secrets.token_hex(4)}", settings(cluster, monitors=cluster.monitors[:2]))


async def test_entries_are_read_from_the_last_server_while_there_is_no_leader_and_nothing_is_accepted(tmp_path: Path) -> None:
    """Without a majority no consumer can be made: direct gets read on."""
    with NatsCluster(tmp_path) as own:
        channel = await open_when_possible("alone", settings(own, append_timeout_ms=2_000))
        await asyncio.gather(*[channel.append(b"%d" % number) for number in range(1, 101)])
        last = own.server(await leader_of(own, "alone"))
        for server in own.servers:
            if server is not last:
                server.kill()

        found = await read_all(channel, 100)
        fetched = await channel.fetch(range(1, 101))

        assert [bytes(entry.command) for entry in found] == fetched == [b"%d" % number for number in range(1, 101)]
        with pytest.raises((Unavailable, OutcomeUnknown)):
            await asyncio.wait_for(channel.append(b"without a majority"), PATIENCE_S)
        for server in own.servers:
            if server is not last:
                server.start()
        await asyncio.wait_for(append_until_taken(channel, b"resumed"), PATIENCE_S)
        await channel.close()


async def test_a_leader_that_answers_pings_and_takes_nothing_is_left_after_three_silences(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with NatsCluster(tmp_path) as own:
        await (await open_when_possible("stuck", settings(own))).close()
        leader = own.server(await leader_of(own, "stuck"))
        others = [server for server in own.servers if server is not leader]
        impatient = settings(own, servers=(leader.url,), attempt_ms=200, connect_options={"ping_interval": 3600})
        channel = await open_when_possible("stuck", impatient)
        for server in others:
            server.pause()
        appended = channel.append(b"sent while the leader has no majority")

        await until(lambda: "three attempts were not answered" in caplog.text, "the leader is left")
        assert not appended.done()
        for server in others:
            server.resume()

        assert (await asyncio.wait_for(appended, PATIENCE_S)).entry == 1
        assert channel._connection.stats["reconnects"] > 0
        assert [bytes(entry.command) for entry in await read_all(channel, 1)] == [b"sent while the leader has no majority"]
        await channel.close()


async def append_until_taken(channel: JetStreamChannel, command: bytes) -> Receipt:
    while True:
        try:
            return await channel.append(command)
        except (Unavailable, OutcomeUnknown):
            await asyncio.sleep(0.05)


async def test_a_channel_opens_with_one_server_down_that_was_checked_before_and_stops_if_it_comes_back_otherwise(
    tmp_path: Path,
) -> None:
    with NatsCluster(tmp_path) as own:
        name = "one-down"
        channel = await open_when_possible(name, settings(own))
        await channel.append(b"before")
        await channel.close()
        down = next(server for server in own.servers if server.name != "n1")
        down.stop()

        channel = await open_when_possible(name, settings(own))
        assert (await channel.append(b"with one server down")).entry == 2

        down.start(sync_interval="2m")
        with pytest.raises(BadSetting, match=f"server '{down.name}' .* acknowledges before it syncs"):
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    await channel.append(b"until the server that was down was asked")
        await channel.close()


async def test_a_first_opening_with_one_server_down_waits_for_it(tmp_path: Path) -> None:
    with NatsCluster(tmp_path) as own:
        own.servers[2].stop()

        with pytest.raises(Unavailable):
            await JetStreamChannel.open("first", settings(own))

        own.servers[2].start()
        await (await open_when_possible("first", settings(own))).close()


@pytest.mark.parametrize("whose", ["leader", "follower"])
async def test_a_bit_flipped_in_one_copy_is_read_from_another_and_its_server_is_named(
    whose: str, cluster: NatsCluster, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"flip-{secrets.token_hex(4)}"
    channel = await open_when_possible(name, settings(cluster))
    wanted = [b"command %d" % number * 100 for number in range(1, 41)]
    await asyncio.gather(*[channel.append(command) for command in wanted])
    leader = await leader_of(cluster, name)
    victim = next(server for server in cluster.servers if (server.name == leader) == (whose == "leader"))
    victim.stop()
    flip_a_bit(victim, name, b"command 20")
    victim.start()
    await asyncio.to_thread(cluster.wait_until_ready)

    async with asyncio.timeout(PATIENCE_S):
        while not channel.damaged_copies:  # chance decides whose copy is read
            assert [bytes(entry.command) for entry in await read_all(channel, 40)] == wanted
            assert [bytes(command) for command in await channel.fetch(range(15, 26))] == wanted[14:25]

    assert list(channel.damaged_copies) == [victim.name]
    assert f"on server {victim.name} is damaged: entry 20 is missing" in caplog.text
    assert (await channel.append(b"it goes on")).entry == 41
    await channel.close()
