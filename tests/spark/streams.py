"""What the tests of the stream source have in common: sending, starting queries, and what their batches held."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import holdfast.blocking
from tests.cluster_processes import ClusterProcesses
from tests.server_process import ServerProcess

STARTS_MAX = 5
NOT_STARTED = "Python worker failed to connect back"


def send(server: ServerProcess, topic: str, numbers: Iterable[int], **fields: Any) -> None:
    """Each number an event; all of them on disk when this returns."""
    with holdfast.blocking.connect(server.url) as client, client.topic(topic).pipeline() as pipeline:
        for number in numbers:
            pipeline.send({"number": number}, **fields)


def waiting(server: ServerProcess, topic: str, subscription: str) -> int:
    with holdfast.blocking.connect(server.url) as client:
        return next(int(each["waiting"]) for each in client.subscriptions(topic) if each["name"] == subscription)


class Query:
    """A stream into lists: the batches that were written, each with its numbers, by `commit` of a Python function."""

    def __init__(self, spark: SparkSession, server: ServerProcess | ClusterProcesses, checkpoint: Path, **options: str) -> None:
        self.batches: dict[int, list[int]] = {}
        self.destinations: set[str] = set()
        self.on_batch: Callable[[int], None] = lambda number: None
        self._spark = spark
        self._checkpoint = checkpoint
        self._options = {
            "url": server.url, "subscription": "lake", "format": "json", "dataSchema": "number INT", "timeout": "20", **options,
        }  # fmt: skip

    def frame(self) -> DataFrame:
        return self._spark.readStream.format("holdfast").options(**self._options).load()

    def start(self, **trigger: Any) -> StreamingQuery:
        stream = self.frame().writeStream.foreachBatch(self._take).option("checkpointLocation", str(self._checkpoint))
        return stream.trigger(**trigger).start() if trigger else stream.start()

    def run(self) -> StreamingQuery:
        """Everything that is there, then the end. Spark gives a Python process ten seconds to start, which a busy machine may
        need: then nothing has begun, and it is started again."""
        for _ in range(STARTS_MAX):
            query = self.start(availableNow=True)
            try:
                query.awaitTermination()
                return query
            except StreamingQueryException as problem:
                if NOT_STARTED not in str(problem):
                    raise
        raise AssertionError(f"Spark could not start a Python process in {STARTS_MAX} attempts")

    @property
    def numbers(self) -> list[int]:
        """As a table would hold them: a batch that came again took the place of the one before."""
        return sorted(number for batch in self.batches.values() for number in batch)

    def _take(self, frame: DataFrame, number: int) -> None:
        rows = frame.select("destination", "data.number").collect()
        self.on_batch(number)
        self.batches[number] = [row["number"] for row in rows]
        self.destinations |= {row["destination"] for row in rows}
