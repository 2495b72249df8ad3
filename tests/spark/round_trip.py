"""Source and sinks, stream and batch, once around on a cluster: a program in a process of its own, and what it leaves behind.

    python -m tests.spark.round_trip PLACE URL FOLDER PYTHON        PLACE: spark://… or sc://…; PYTHON: of the nodes

    plant.*  ──stream──▶  queue copied  ──batch──▶  queue copied-again
       │                       └────────batch──▶  table looked-at
       └─────stream──▶  table streamed

It is its own process because the tests' one has a Spark session already, and because its nodes have another Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import holdfast.blocking
from holdfast.spark import spark_session
from holdfast.spark.session import QUICK
from tests import effort
from tests.server_process import ServerProcess
from tests.spark.cluster import environment
from tests.spark.lake_rows import numbers_in
from tests.spark.producing import TOPICS

PATTERN = "plant.*"
EVENTS = effort.rounds(short=300, long=2_000)
PIECES = 4
PATIENCE_S = 540
STARTS_MAX = 3
# On a cluster: both executors are waited for, so that both are used.
ON_TWO_NODES = {
    **QUICK,
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}


@dataclass(frozen=True)
class Left:
    """What a round trip left behind."""

    nodes: list[dict[str, str]]  # of each task that looked around before anything was sent there
    table_rows: int  # of the table that was streamed into, as Spark counts them
    copied: list[int]
    copied_again: list[int]
    streamed: list[int]
    looked_at: list[int]
    waiting: dict[str, int]  # what the subscriptions still hold


def round_trip(place: str, python: Path, folder: Path) -> Left:
    """The test's end of it."""
    with ServerProcess(folder / "data") as server:
        _send(server)
        said = _run(place, python, server.url, folder)
        with holdfast.blocking.connect(server.url) as client:
            return Left(
                nodes=said["nodes"],
                table_rows=said["table_rows"],
                copied=_numbers(client, "copied"),
                copied_again=_numbers(client, "copied-again"),
                streamed=numbers_in(folder / "streamed"),
                looked_at=numbers_in(folder / "looked-at"),
                waiting={each["name"]: each["waiting"] for each in client.subscriptions(PATTERN)},
            )


def _send(server: ServerProcess) -> None:
    with holdfast.blocking.connect(server.url) as client:
        for subscription in ("copy", "lake"):
            client.create_subscription(PATTERN, subscription)
        for index, topic in enumerate(TOPICS):
            client.topic(topic).send_many([b"%d" % number for number in range(index, EVENTS, len(TOPICS))])


def _numbers(client: holdfast.blocking.Client, queue: str) -> list[int]:
    with client.queue(queue).browse() as events:
        return sorted(int(event.data) for event in events)


def _run(place: str, python: Path, url: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.spark.round_trip", place, url, str(folder), str(python)]
    done = subprocess.run(command, capture_output=True, text=True, env=_of_driver(place, python), timeout=PATIENCE_S)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def _of_driver(place: str, python: Path) -> dict[str, str]:
    """It says by a setting which Python the nodes have; a client of Spark Connect needs no Java, and has none."""
    given = {**environment(python), "PYSPARK_PYTHON": sys.executable}
    return {**given, "JAVA_HOME": "/nowhere"} if is_connect(place) else given


def is_connect(place: str) -> bool:
    return place.startswith("sc:")


# --- the program -----------------------------------------------------------------------------------------------------


def look_around(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: where it runs, and what becomes of importing the package there."""
    try:
        import holdfast as found

        outcome = f"found at {found.__file__}"
    except ModuleNotFoundError as problem:
        outcome = str(problem)
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"folder": [os.getcwd()], "outcome": [outcome]})


def stream(spark: SparkSession, url: str, subscription: str) -> DataFrame:
    read = {"url": url, "destinations": PATTERN, "subscription": subscription, "minPartitions": str(PIECES)}
    return spark.readStream.format("holdfast").options(**read).load()


def run(stream: DataStreamWriter) -> None:
    """Everything that is there. Spark gives its Python ten seconds to start; where a busy machine needs longer nothing has
    happened yet, and the query is started again."""
    for starts_left in reversed(range(STARTS_MAX)):
        try:
            stream.trigger(availableNow=True).start().awaitTermination()
            return
        except StreamingQueryException as problem:
            if "failed to connect back" not in str(problem) or not starts_left:
                raise


def session(place: str, python: str) -> SparkSession:
    if is_connect(place):
        return spark_session(remote=place)
    return spark_session(place, **ON_TWO_NODES, **{"spark.pyspark.python": python})


def main(place: str, url: str, folder: str, python: str) -> None:
    spark = session(place, python)
    looked = spark.range(0, PIECES, 1, PIECES).mapInArrow(look_around, "folder string, outcome string")
    nodes = [row.asDict() for row in looked.collect()]

    into_queue = stream(spark, url, "copy").select("data", "type").writeStream.format("holdfast")
    into_queue = into_queue.options(url=url, destination="copied", kind="queue", checkpointLocation=f"{folder}/copy-checkpoint")
    run(into_queue)

    into_table = stream(spark, url, "lake").writeStream.format("holdfast_lake")
    into_table = into_table.options(path=f"{folder}/streamed", checkpointLocation=f"{folder}/lake-checkpoint")
    run(into_table)

    copied = spark.read.format("holdfast").options(url=url, destinations="copied", minPartitions=PIECES).load()
    again = copied.select("data", "type").write.format("holdfast").mode("append")
    again.options(url=url, destination="copied-again", kind="queue").save()
    copied.write.format("holdfast_lake").mode("append").save(f"{folder}/looked-at")

    table_rows = spark.read.format("holdfast_lake").load(f"{folder}/streamed").count()
    spark.stop()
    print(json.dumps({"nodes": nodes, "table_rows": table_rows}))


if __name__ == "__main__":
    main(*sys.argv[1:])
