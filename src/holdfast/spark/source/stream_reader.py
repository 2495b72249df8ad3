"""The stream source: a durable subscription, read in batches, confirmed when they are committed (D1).

    driver      initialOffset         what waits in the subscription begins here
                latestOffset(start)   `start` was committed: make it safe, confirm it; then how far the next batch goes
                partitions            the pieces of a batch, which its end names: the same whenever it is asked
    executor    read(piece)           straight from the server, as Arrow; any number of times

`commit` is not used: Spark calls it for a batch only when the next one is being built, for the last one never. `latestOffset` is
called after every batch, also after the last one, and after a restart.

The reader that Spark plans with lives in a process of its own on the driver, as long as the query runs; it owns the subscription.
Executors get a copy that was never used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from holdfast.spark.columns.shape import Shape
from holdfast.spark.options import StreamOptions
from holdfast.spark.source import offsets
from holdfast.spark.source.connecting import Connection
from holdfast.spark.source.driver import Driver, holdings
from holdfast.spark.source.fetching import fetched
from holdfast.spark.source.owning import Allowance


@dataclass
class StreamPiece(InputPartition):
    """What one task reads. Where the server is, the reader knows."""

    range: offsets.Range


class HoldfastStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: StreamOptions, shape: Shape) -> None:
        self._options = options
        self._shape = shape
        self._driver: Driver | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Connection parameters and the columns; never a connection."""
        return {"_options": self._options, "_shape": self._shape, "_driver": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return offsets.written(self._driving().beginning())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Spark knows one limit at a time, and hands it back; both are kept in `latestOffset`."""
        if self._options.events_max is not None:
            return ReadMaxRows(self._options.events_max)
        return ReadMaxBytes(self._options.bytes_max) if self._options.bytes_max is not None else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """With ReadAllAvailable the options do not count: Spark wants everything in one batch."""
        is_limited = not isinstance(limit, ReadAllAvailable)
        allowance = Allowance(self._options.events_max, self._options.bytes_max) if is_limited else Allowance()
        return offsets.written(self._driving().latest(offsets.read(start), allowance))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._driving().stop_at_newest()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        return self._driving().report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [StreamPiece(each) for each in self._driving().ranges(offsets.read(start), offsets.read(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, StreamPiece)
        destination, start, end = partition.range
        slices = fetched(Connection.of(self._options), holdings(self._options)[destination], start, end)
        return self._shape.batches(slices)

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()

    def _driving(self) -> Driver:
        if self._driver is None:
            self._driver = Driver(self._options)
        return self._driver
