"""Orders of an operator to a cluster of real processes, under load: no program sees an error, and nothing is lost (B17, B23)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from tests import effort
from tests.cluster_processes import ClusterProcesses
from tests.command import run_holdfast
from tests.nats_server import NatsServer
from tests.server_process import ServerProcess
from tests.waiting import until, wait_until

pytestmark = [pytest.mark.faults, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    folder = tmp_path_factory.mktemp("cluster")
    with NatsServer(folder / "nats") as nats, ClusterProcesses(folder, [nats], grace_ms=5_000) as running:
        yield running


def _run(*arguments: str) -> Any:
    done = run_holdfast("cluster", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout)


class Load:
    """A producer, a recipient, and a program that administers. An error of one of them fails the test."""

    def __init__(self, name: str) -> None:
        self.receipted: list[int] = []
        self.seen: list[int] = []
        self.administered = 0
        self._name = name
        self._is_ending = False
        self._working: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def running(self, url: str) -> AsyncIterator[Load]:
        async with holdfast.connect(url, timeout=30) as one, holdfast.connect(url, timeout=30) as two:
            await one.ensure_queue(self._name)
            receiving = asyncio.create_task(self._receive(two))
            self._working = working = [
                receiving,
                asyncio.create_task(self._send(one)),
                asyncio.create_task(self._administer(two)),
            ]
            yield self
            self._is_ending = True
            await asyncio.gather(*working[1:])
            await until(lambda: len(self.seen) >= len(self.receipted) or self._failed(), "everything is received")
            receiving.cancel()
            with suppress(asyncio.CancelledError):
                await receiving

    async def _send(self, client: holdfast.Client) -> None:
        number = 0
        while not self._is_ending:
            await client.queue(self._name).send(number)
            self.receipted.append(number)
            number += 1
            await asyncio.sleep(0.002)

    async def _receive(self, client: holdfast.Client) -> None:
        async with client.queue(self._name).receive() as incoming:
            async for event in incoming:
                self.seen.append(event.data)
                await event.confirm()

    async def _administer(self, client: holdfast.Client) -> None:
        while not self._is_ending:
            await client.describe(self._name)
            self.administered += 1
            await asyncio.sleep(0.01)

    async def goes_on(self) -> None:
        seen, administered = len(self.seen), self.administered
        await until(lambda: (len(self.seen) > seen + 20 and self.administered > administered + 2) or self._failed(), "it goes on")

    def _failed(self) -> bool:
        """Raise what ended a program."""
        for task in self._working:
            if task.done():
                task.result()
        return False

    def check(self) -> None:
        assert self.seen == self.receipted == list(range(len(self.receipted)))


async def _primary(client: holdfast.Client) -> str | None:
    (manager,) = (await client.cluster_status())["managers"]
    return manager["primary"]


async def _is_whole(client: holdfast.Client) -> bool:
    status = await client.cluster_status()
    (manager,) = status["managers"]
    return not status["silent"] and not manager["missing"] and manager["primary"] is not None


async def test_a_planned_takeover_under_load_goes_there_and_back(cluster: ClusterProcesses) -> None:
    load = Load("taken.over")
    async with holdfast.connect(cluster.url, timeout=30) as client, load.running(cluster.url):
        await until(lambda: _is_whole(client), "all copies are there")
        await load.goes_on()
        for _ in range(2):
            former = await _primary(client)
            told = await asyncio.to_thread(_run, "takeover", "m1", "--url", cluster.url)
            assert (told["manager"], told["former"]) == ("m1", former)
            assert told["primary"] != former
            assert await _primary(client) == told["primary"]
            await load.goes_on()
            await until(lambda: _is_whole(client), "the former primary is a backup")
        again = await client.cluster_takeover("m1", to=str(told["primary"]))
        assert again["primary"] == again["former"] == told["primary"]
    load.check()


async def test_a_takeover_of_nothing_and_by_nobody_is_refused_with_what_there_is(cluster: ClusterProcesses) -> None:
    async with holdfast.connect(cluster.url) as client:
        with pytest.raises(holdfast.Refused, match="no message manager 'm9'; there are: m1"):
            await client.cluster_takeover("m9")
        with pytest.raises(holdfast.Refused, match="node 'z' has no copy of m1; there are: a, b"):
            await client.cluster_takeover("m1", to="z")


async def test_a_node_that_leads_and_is_stopped_hands_over_first(cluster: ClusterProcesses) -> None:
    load = Load("stopped")
    async with holdfast.connect(cluster.url, timeout=30) as client:
        await until(lambda: _is_whole(client), "all copies are there")
        primary = str(await _primary(client))
        other = next(name for name in cluster.nodes if name != primary)
        async with load.running(f"holdfast://127.0.0.1:{cluster.nodes[other].port}"):
            await load.goes_on()
            await asyncio.to_thread(cluster.nodes[primary].stop)
            assert "takes over, since its primary resigns" in cluster.nodes[other].log
            await load.goes_on()
            await asyncio.to_thread(cluster.nodes[primary].start)
        await until(lambda: _is_whole(client), "it is back")
    load.check()


async def test_each_node_is_drained_stopped_and_started_again_under_load(cluster: ClusterProcesses) -> None:
    """A rolling upgrade: nothing is lost, nothing comes twice, and no program sees an error. In a short run: one node."""
    load = Load("upgraded")
    async with holdfast.connect(cluster.url, timeout=30) as client, load.running(cluster.url):
        for name, node in list(cluster.nodes.items())[: effort.rounds(short=1, long=2)]:
            await until(lambda: _is_whole(client), "all copies are there")
            await load.goes_on()
            told = await asyncio.to_thread(_run, "drain", name, "--url", cluster.url)
            assert told == {"node": name, "is_drained": True, "links": 0, "leads": [], "is_done": True}
            assert await _primary(client) not in (None, name)
            await load.goes_on()
            await asyncio.to_thread(node.stop)
            await load.goes_on()
            await asyncio.to_thread(node.start)
    load.check()


async def test_a_drained_node_is_shown_keeps_out_clients_and_is_taken_back(cluster: ClusterProcesses) -> None:
    async with holdfast.connect(cluster.url, timeout=30) as client:
        await until(lambda: _is_whole(client), "all copies are there")
        assert (await client.cluster_drain("a"))["is_done"]
        shown = await asyncio.to_thread(run_holdfast, "cluster", "status", "--url", cluster.url)
        assert "drained" in shown.stdout
        with pytest.raises(holdfast.Unavailable):
            async with holdfast.connect(cluster.nodes["a"].url, timeout=0.5):
                pass
        with pytest.raises(holdfast.Unavailable, match="a is drained"):
            await client.cluster_takeover("m1")
        with pytest.raises(holdfast.Unavailable, match="no other node takes clients now, so b is not drained"):
            await client.cluster_drain("b")
        with pytest.raises(holdfast.Refused, match="there is no node 'z'; there are: a, b"):
            await client.cluster_drain("z")

        again = await client.cluster_drain("a", undo=True)
        assert again["is_done"] and not again["is_drained"]
        async with holdfast.connect(cluster.nodes["a"].url, timeout=20) as there:
            await there.queue("upgraded").send("it takes clients")


# --- roles ---------------------------------------------------------------------------------------------------------------


async def test_a_client_manager_that_is_added_serves_clients_and_has_no_copy(cluster: ClusterProcesses) -> None:
    with ServerProcess(cluster.folder / "c", "--name", "c", *cluster.options, "--role", "client-manager") as added:
        async with holdfast.connect(added.url, timeout=30) as client:
            await client.queue("roles").send("through c")

            async def row() -> Any:
                return next(each for each in (await client.cluster_status())["nodes"] if each["name"] == "c")

            await until(lambda: _found(row, lambda found: found["links"] == 1), "its link is shown")
            assert (await row())["copies"] == []
            async with client.queue("roles").receive() as incoming:
                assert (await incoming.next(20)).data == "through c"
        added.stop()  # it leaves, and is forgotten


async def _found(row: Any, is_so: Any) -> bool:
    return bool(is_so(await row()))


def test_a_role_that_contradicts_the_file_is_refused_with_what_to_do(cluster: ClusterProcesses, tmp_path: Path) -> None:
    joined = ("--cluster", str(cluster.file), "--name", "a", "--role", "client-manager")
    refused = run_holdfast("serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0", *joined)
    assert refused.returncode == 1
    assert "node a has a copy of m1 by the cluster's file, and --role client-manager has none" in refused.stderr


class NodeWithoutClients(ServerProcess):
    def _until_started(self) -> None:
        wait_until(lambda: "following its message managers" in self.log, "it runs")


@pytest.mark.long
async def test_a_message_manager_alone_leads_and_takes_no_clients(cluster: ClusterProcesses) -> None:
    async with holdfast.connect(cluster.nodes["b"].url, timeout=30) as client:
        await until(lambda: _is_whole(client), "all copies are there")
        await client.cluster_drain("a")
        await asyncio.to_thread(cluster.nodes["a"].stop)
        with NodeWithoutClients(cluster.folder / "a", "--name", "a", *cluster.options, "--role", "message-manager") as alone:
            await until(lambda: _is_whole(client), "its copy is there")
            assert (await client.cluster_takeover("m1"))["primary"] == "a"
            await client.queue("roles").send("led by a")
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", alone.port)
            await client.cluster_takeover("m1")
        await asyncio.to_thread(cluster.nodes["a"].start)
