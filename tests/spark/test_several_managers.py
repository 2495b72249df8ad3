"""Spark reads from a cluster with two message managers: each event once, though the primary of each is killed (B15, D2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import holdfast.blocking
from tests.cluster_processes import ClusterProcesses
from tests.nats_server import NatsServer
from tests.spark.streams import Query

pytestmark = pytest.mark.long

MANAGERS = {"m1": ("a", "b"), "m2": ("b", "c")}
TOPICS = [f"plant.{number}" for number in range(4)]
EVENTS = 400
STARTS_MAX = 10


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with (
        NatsServer(tmp_path_factory.mktemp("nats")) as nats,
        ClusterProcesses(tmp_path_factory.mktemp("nodes"), [nats], ("a", "b", "c"), managers=MANAGERS) as running,
    ):
        yield running


def send(client: holdfast.blocking.Client, numbers: range) -> None:
    for number in numbers:
        client.topic(TOPICS[number % len(TOPICS)]).send({"number": number}, timeout=60)


def test_each_event_is_in_one_batch_although_primaries_die(
    spark: SparkSession, cluster: ClusterProcesses, tmp_path: Path
) -> None:
    with holdfast.blocking.connect(cluster.url, timeout=60) as client:
        client.create_subscription("plant.*", "lake")
        send(client, range(EVENTS))
        managers = {client.topic(topic).send({"number": EVENTS + index}).channel for index, topic in enumerate(TOPICS)}
        assert managers == set(MANAGERS)
        sent = [EVENTS + len(TOPICS)]  # so many, and after each death more
        query = Query(spark, cluster, tmp_path / "checkpoint", destinations="plant.*", maxEventsPerTrigger="50")
        killed: list[str] = []

        def kill(batch: int) -> None:
            """In the middle of the third batch and of the sixth: what it read is not confirmed yet."""
            if batch in (2, 5) and len(killed) == batch // 3:
                manager = list(MANAGERS)[len(killed)]
                status = {each["name"]: each["primary"] for each in client.cluster_status()["managers"]}
                name = status[manager]
                assert name is not None
                cluster.nodes[name].kill()
                killed.append(name)
                send(client, range(sent[0], sent[0] + 40))
                sent[0] += 40
                cluster.nodes[name].start()

        query.on_batch = kill
        for _ in range(STARTS_MAX):
            try:
                query.run()
            except StreamingQueryException:
                continue
            if len(query.numbers) >= sent[0]:
                break

        left = sum(each["waiting"] for each in client.subscriptions("plant.*"))
    assert len(killed) == 2
    assert query.numbers == list(range(EVENTS + len(TOPICS) + 80))
    assert left == 0
