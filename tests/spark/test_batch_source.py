"""The batch source: what a destination holds, looked at and not taken (D2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import holdfast.blocking
from tests.server_process import ServerProcess

EVENTS = 30_000


@pytest.fixture(scope="module")
def filled(server: ServerProcess) -> str:
    """A queue with events of three types in it."""
    with holdfast.blocking.connect(server.url) as client:
        queue = client.queue("batch.filled")
        with queue.pipeline() as pipeline:
            for number in range(EVENTS):
                pipeline.send({"number": number}, type=f"kind.{number % 3}", properties={"number": number})
    return "batch.filled"


def read(spark: SparkSession, url: str, destinations: str, **options: Any) -> DataFrame:
    given = {"url": url, "destinations": destinations, "timeout": "20", **options}
    return spark.read.format("holdfast").options(**given).load()


def test_a_queue_is_read_whole_in_several_tasks_and_nothing_is_taken_d2(
    spark: SparkSession, server: ServerProcess, filled: str
) -> None:
    frame = read(spark, server.url, filled, format="json", dataSchema="number INT", minPartitions="4", columns="position,data")

    rows = frame.collect()

    assert sorted(row["data"]["number"] for row in rows) == list(range(EVENTS))
    assert len({row["position"] for row in rows}) == EVENTS
    assert frame.columns == ["position", "data"]
    assert frame.rdd.getNumPartitions() == 4
    with holdfast.blocking.connect(server.url) as client:
        assert client.describe(filled)["waiting"] == EVENTS


def test_ranges_of_position_and_time_and_a_selector_choose_what_is_read_d2(
    spark: SparkSession, server: ServerProcess, filled: str
) -> None:
    everything = read(spark, server.url, filled, columns="position,accepted_at,type").orderBy("position").collect()
    first, last = everything[5_000], everything[25_000]

    by_position = read(spark, server.url, filled, startPosition=first["position"], endPosition=last["position"])
    by_type = read(spark, server.url, filled, selector="type = 'kind.1' AND number < 3000")
    moment = last["accepted_at"].isoformat() + "Z"
    by_time = read(spark, server.url, filled, startTime=moment, columns="accepted_at")

    assert by_position.count() == 20_000
    assert {row["type"] for row in by_type.select("type").collect()} == {"kind.1"}
    assert by_type.count() == 1_000
    assert by_time.count() == sum(row["accepted_at"] >= last["accepted_at"] for row in everything)


def test_a_schema_that_is_given_chooses_columns_d2(spark: SparkSession, server: ServerProcess, filled: str) -> None:
    options = {"url": server.url, "destinations": filled, "endPosition": str(1 << 40)}
    frame = spark.read.format("holdfast").schema("type STRING, size BIGINT").options(**options).load()

    assert frame.groupBy("type").count().count() == 3


def test_the_journal_of_a_server_that_does_not_run_is_read_from_its_folder_d2(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with holdfast.blocking.connect(f"file:{folder}") as client:
        client.create_topic("news")
        client.create_subscription("news", "lake")
        for number in range(20):
            client.topic("news").send({"number": number})
            client.queue("orders").send({"number": 100 + number})

    of_topic = read(spark, f"file:{folder}", "news", subscription="lake", format="text")
    of_queues = read(spark, f"file:{folder}", "ord*", selector="JMSType = 'none' OR TRUE", columns="destination,size")

    assert sorted(row["data"] for row in of_topic.select("data").collect())[0] == '{"number":0}'
    assert of_topic.count() == 20
    assert [row["destination"] for row in of_queues.collect()] == ["orders"] * 20


def test_what_waits_in_a_subscription_of_a_pattern_is_read_d2(spark: SparkSession, server: ServerProcess) -> None:
    with holdfast.blocking.connect(server.url) as client:
        client.create_subscription("batch.topics.*", "looking")
        client.topic("batch.topics.a").send({"number": 1})
        client.topic("batch.topics.b").send({"number": 2})

    frame = read(spark, server.url, "batch.topics.*", subscription="looking")

    assert sorted(row["destination"] for row in frame.collect()) == ["batch.topics.a", "batch.topics.b"]


def test_an_empty_queue_is_an_empty_frame_d2(spark: SparkSession, server: ServerProcess) -> None:
    with holdfast.blocking.connect(server.url) as client:
        client.create_queue("batch.empty")

    assert read(spark, server.url, "batch.empty").count() == 0
