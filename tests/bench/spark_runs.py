"""What the measures of Spark share: a session, a server whose topic is read, and the rate of a query.

A rate is that of the batches of a query after its first, by Spark's own account of them (`triggerExecution`: everything from
asking for offsets to having committed). Starting a query takes seconds, whatever its source, and is left out for all alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdfast.spark import spark_session
from tests.bench.peers.holdfast import HoldfastClient, Server
from tests.bench.ready_made import NAME, ReadyMade
from tests.bench.workshop import EVENT_BYTES, Workshop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "spark"
PIECES = 2

Sink = dict[str, str]  # options of a sink; "format" among them


@dataclass
class Bench:
    """A session, and where its queries keep what they write."""

    spark: SparkSession
    workshop: Workshop
    folder: Path
    batch_events: int
    batches: int

    def __post_init__(self) -> None:
        self._numbers = itertools.count()

    @property
    def events(self) -> int:
        return self.batch_events * self.batches

    def ready_made(self, rows: pa.Table) -> DataFrame:
        """A stream of these rows, again and again: as many in a batch as the others have."""
        file = self.folder / "ready-made.arrow"
        if not file.exists():
            with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write_table(rows, max_chunksize=10_000)
        options = {"file": str(file), "pieces": str(PIECES), "batches": str(self.batches)}
        return self.spark.readStream.format(NAME).options(**options).load()

    def rate(self, frame: DataFrame, sink: str, **options: str) -> float:
        """Rows a second into a sink, all there are, batch by batch."""
        number = next(self._numbers)
        if sink in ("parquet", "holdfast_lake"):
            options["path"] = str(self.folder / f"table-{number}")
        writer = frame.writeStream.format(sink).options(**options)
        query = writer.option("checkpointLocation", str(self.folder / f"checkpoint-{number}")).trigger(availableNow=True).start()
        query.awaitTermination()
        done: list[Any] = [progress for progress in query.recentProgress if progress["numInputRows"]]
        if sum(progress["numInputRows"] for progress in done) != self.events or len(done) != self.batches:
            raise RuntimeError(f"{self.batches} batches with {self.events:,} rows were expected: {done}")
        timed = done[1:]
        taken_ms: int = sum(progress["durationMs"]["triggerExecution"] for progress in timed)
        return self.batch_events * len(timed) / taken_ms * 1000


@contextmanager
def bench(workshop: Workshop) -> Iterator[Bench]:
    spark = spark_session(f"local[{PIECES}]", **{"spark.ui.enabled": "false", "spark.log.level": "ERROR"})
    try:
        spark.dataSource.register(ReadyMade)
        yield Bench(spark, workshop, workshop.folder("tables"), workshop.scale.spark_batch_events, workshop.scale.spark_batches)
    finally:
        spark.stop()


@contextmanager
def filled_topic(workshop: Workshop, events: int, subscriptions: list[str]) -> Iterator[Server]:
    """A server with so many events in a topic, held for each of these subscriptions."""
    server = Server("--journal-size", "16G")
    try:
        server.start(workshop.folder("spark"))
        client = server.connect()
        client.loop.run(client.client.create_topic(TOPIC))
        for name in subscriptions:
            client.loop.run(client.client.create_subscription(TOPIC, name))
        _fill(client, events, lambda sent: workshop.tell(f"filling a topic for Spark: {sent:,} of {events:,}"))
        client.close()
        yield server
    finally:
        server.stop()


def _fill(client: HoldfastClient, events: int, tell: Callable[[int], None]) -> None:
    async def fill() -> None:
        body = bytes(EVENT_BYTES)
        async with client.client.topic(TOPIC).pipeline() as pipeline:
            for sent in range(events):
                await pipeline.send(body)
                if not sent % 100_000:
                    tell(sent)

    client.loop.run(fill())


def stream_of(bench: Bench, server: Server, subscription: str) -> DataFrame:
    """What the topic holds for a subscription; as many in a batch as the yardstick has."""
    options = {
        "url": server.url,
        "destinations": TOPIC,
        "subscription": subscription,
        "maxEventsPerTrigger": str(bench.batch_events),
        "minPartitions": str(PIECES),
    }
    return bench.spark.readStream.format("holdfast").options(**options).load()


def rows_of(bench: Bench, server: Server, subscription: str, count: int) -> pa.Table:
    """The first rows that the source makes of the topic."""
    options = {"url": server.url, "destinations": TOPIC, "subscription": subscription}
    return bench.spark.read.format("holdfast").options(**options).load().limit(count).toArrow()
