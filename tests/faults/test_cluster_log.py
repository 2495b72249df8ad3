"""`_LOG` of a cluster has the lines of all nodes, each with the name of its node, also while they start and take over (B19)."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import holdfast
from tests.cluster_processes import ClusterProcesses
from tests.command import run_holdfast
from tests.nats_server import NatsServer
from tests.waiting import until
from tests.watching import ask, value_in

pytestmark = [pytest.mark.faults, pytest.mark.slow]


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


async def test_the_lines_of_all_nodes_are_in_the_log_of_the_cluster_and_each_answers_http(
    tmp_path: Path, nats: NatsServer
) -> None:
    with ClusterProcesses(tmp_path, [nats], options=("--http", "127.0.0.1:0")) as cluster:
        lines: list[tuple[str, str]] = []

        async def read(client: holdfast.Client) -> None:
            async with client.topic("_LOG").subscribe("archive") as incoming:
                async for event in incoming:
                    lines.append((str(event.properties["node"]), event.data))
                    await event.confirm()

        def has(node: str, words: str) -> bool:
            return any(node == each and words in text for each, text in lines)

        async with holdfast.connect(cluster.beside, timeout=60) as client:
            await client.create_subscription("_LOG", "archive", timeout=60)
            reading = asyncio.create_task(read(client))
            for name, node in cluster.nodes.items():
                await until(lambda name=name, node=node: has(name, "reload") or node.reload(), "it has heard of the subscription")  # type: ignore[misc]
            assert await asyncio.to_thread(cluster.nodes["a"].stop) == 0
            await until(lambda: has("a", "stops: "), "the node that was primary says its last words")
            await until(lambda: has("b", "node b takes over"), "the other says that it takes over")
            await asyncio.to_thread(cluster.nodes["a"].start)
            await until(lambda: has("a", "starts: "), "it says that it is there again")
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

        for name, node in cluster.nodes.items():
            port = int(re.findall(r"answering http://127.0.0.1:(\d+)", node.log)[-1])
            await until(lambda port=port: ask(port, "/readyz").status == 200, "it is ready")  # type: ignore[misc]
            text = ask(port, "/metrics").body
            assert value_in(text, "holdfast_info", node=name, version=holdfast.__version__) == 1
            assert value_in(text, "holdfast_cluster_log_dropped_total") == 0


@pytest.mark.long
async def test_while_nats_does_not_answer_the_log_does_not_feed_itself(tmp_path: Path, nats: NatsServer) -> None:
    with ClusterProcesses(tmp_path, [nats]) as cluster:
        async with holdfast.connect(cluster.url, timeout=120) as client:
            await client.create_subscription("_LOG", "archive", timeout=60)
            sending = asyncio.create_task(client.queue("orders").send(1, timeout=120))
            nats.pause()
            began = time.monotonic()
            try:
                await until(lambda: time.monotonic() - began > 25, "appends have failed for long")
            finally:
                nats.resume()
            await sending
            await client.queue("orders").send(2, timeout=60)

            async def waiting() -> int:
                return int((await client.subscriptions("_LOG", timeout=60))[0]["waiting"])

            await until(waiting, "what was logged meanwhile is there")
            assert await waiting() < 100
            done = await asyncio.to_thread(
                run_holdfast, "receive", "_LOG", "--topic", "--subscription", "archive", "--count", "1", "--json", "--url",
                cluster.url,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            assert msgspec.json.decode(done.stdout.splitlines()[0])["properties"]["node"] in cluster.nodes
