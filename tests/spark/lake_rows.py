"""Rows for lake tables, and a writer's methods called as Spark calls them, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyspark import TaskContext
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from holdfast.spark.lake.format import LakeSource
from holdfast.spark.lake.sink import LakeBatchWriter, LakeMessage, LakeStreamWriter
from holdfast.spark.sink.commit_order import QUERY_ID

QUERY = "7c1e9a52-0000-4000-8000-000000000001"
NOON = datetime(2026, 11, 16, 12, 0, 0, 123_456, tzinfo=UTC)

SCHEMA = pa.schema(
    [
        ("destination", pa.string()),
        ("position", pa.int64()),
        ("accepted_at", pa.timestamp("us", "Europe/Berlin")),  # in the zone of the session, as Spark hands them out
        ("time", pa.timestamp("us", "Europe/Berlin")),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("data", pa.binary()),
    ]
)
SPARK_SCHEMA = from_arrow_schema(SCHEMA)


def rows(
    positions: Sequence[int],
    destinations: Sequence[str | None] = ("orders",),
    *,
    accepted_at: datetime | None = NOON,
    time: datetime | None = NOON,
) -> pa.RecordBatch:
    """One row for each position, taking the destinations in turn."""
    return pa.RecordBatch.from_pylist(
        [
            {
                "destination": destinations[number % len(destinations)],
                "position": position,
                "accepted_at": accepted_at,
                "time": time,
                "properties": {"shade": "blue"},
                "data": b"%d" % position,
            }
            for number, position in enumerate(positions)
        ],
        schema=SCHEMA,
    )


def stream_writer(
    folder: Path | str, schema: StructType = SPARK_SCHEMA, *, overwrite: bool = False, **options: str
) -> LakeStreamWriter:
    return LakeSource({"path": str(folder), **options}).streamWriter(schema, overwrite)


def batch_writer(
    folder: Path | str, schema: StructType = SPARK_SCHEMA, *, overwrite: bool = False, **options: str
) -> LakeBatchWriter:
    return LakeSource({"path": str(folder), **options}).writer(schema, overwrite)


@contextmanager
def task(query: str | None = QUERY, partition: int = 0) -> Iterator[None]:
    """As in a task of this query: what Spark's worker sets up before it calls `write`."""
    context = TaskContext._getOrCreate()
    context._partitionId, context._taskAttemptId = partition, 7
    context._localProperties = {} if query is None else {QUERY_ID: query}
    try:
        yield
    finally:
        TaskContext._setTaskContext(None)


def write(writer: LakeStreamWriter | LakeBatchWriter, *batches: pa.RecordBatch, query: str | None = QUERY) -> LakeMessage:
    with task(query):
        return writer.write(iter(batches))


def add_batch(folder: Path, number: int, batch: pa.RecordBatch) -> None:
    """One batch of the query, from its first step to its last."""
    writer = stream_writer(folder)
    writer.commit([write(writer, batch)], number)


def positions(folder: Path) -> list[int]:
    """Of all rows of the table, as a stranger reads it."""
    return sorted(DeltaTable(folder).to_pyarrow_table(columns=["position"]).column("position").to_pylist())


def read(folder: Path) -> list[dict[str, Any]]:
    """All rows, as Spark reads them with this package: plan, then read each part."""
    source = LakeSource({"path": str(folder)})
    reader = source.reader(source.schema())
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def parquet_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts)


def days_ago(days: int) -> datetime:
    return NOON - timedelta(days=days)


def numbers_in(folder: Path) -> list[int]:
    """The data of all rows, which are numbers."""
    return sorted(int(data) for data in DeltaTable(folder).to_pyarrow_table(columns=["data"]).column("data").to_pylist())
