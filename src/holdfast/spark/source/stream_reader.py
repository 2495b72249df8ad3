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

import logging
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
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from holdfast.client.reading.place_reader import ReadSlice
from holdfast.errors import NoSuchDestination, NoSuchSubscription
from holdfast.spark.columns.shape import Shape
from holdfast.spark.options import StreamOptions
from holdfast.spark.server_address import ServerAddress
from holdfast.spark.source import offsets
from holdfast.spark.source.driver import Driver, read_target
from holdfast.spark.source.fetcher import fetched
from holdfast.spark.source.stream_ownership import Allowance

log = logging.getLogger(__name__)


@dataclass
class StreamPiece(InputPartition):
    """The range that one task reads. The reader has the address of the server."""

    range: offsets.Range


class HoldfastStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: StreamOptions, shape: Shape) -> None:
        self._options = options
        self._shape = shape
        self._driver: Driver | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Keep the options and the columns; drop the driver, whose link cannot travel."""
        return {"_options": self._options, "_shape": self._shape, "_driver": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return offsets.written(self._driving().beginning())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Spark knows one limit at a time, and hands it back; `latestOffset` keeps all of them."""
        if self._options.events_max is not None:
            return ReadMaxRows(self._options.events_max)
        if self._options.bytes_max is not None:
            return ReadMaxBytes(self._options.bytes_max)
        return ReadAllAvailable() if self._options.events_min is None else ReadMinRows(self._options.events_min)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """With ReadAllAvailable the options do not count: Spark wants everything in one batch."""
        is_limited = not isinstance(limit, ReadAllAvailable)
        allowance = Allowance(self._options.events_max, self._options.bytes_max) if is_limited else Allowance()
        return offsets.written(self._driving().latest(offsets.read(start), allowance, has_minimum=is_limited))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._driving().stop_at_newest()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        return self._driving().report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [StreamPiece(each) for each in self._driving().ranges(offsets.read(start), offsets.read(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, StreamPiece)
        destination, start, end, incarnation = partition.range
        target = read_target(self._options, destination)
        slices = fetched(ServerAddress.of(self._options), target, start, end, incarnation=incarnation)
        return self._shape.batches(slices if self._options.on_mismatch == "fail" else _still_there(slices, destination))

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()

    def _driving(self) -> Driver:
        if self._driver is None:
            self._driver = Driver(self._options)
        return self._driver


def _still_there(slices: Iterator[ReadSlice], destination: str) -> Iterator[ReadSlice]:
    """Read what is left of a range whose subscription may be deleted meanwhile."""
    try:
        yield from slices
    except (NoSuchDestination, NoSuchSubscription) as problem:
        log.warning("a part of %r is not read, because its subscription was deleted: %s", destination, problem)
