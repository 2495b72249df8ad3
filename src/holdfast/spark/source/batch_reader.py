"""The batch source: what a queue or a subscription holds at one moment, looked at and not taken (D2).

    url=holdfast://…   the server is asked how far what waits goes; tasks read their pieces of it straight from it
    url=file:DIR       the same from the journal in a folder, which nobody need have open; every node must see the folder

An event that is confirmed or expires before its piece is read is not in the frame. Spark reads a frame again for every
action: cache it, or write it to a table, where that matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from holdfast.client.reading.place_reader import Extent
from holdfast.event.extent import EVERYTHING, Bounds
from holdfast.spark.columns.shape import Shape
from holdfast.spark.options import BatchOptions
from holdfast.spark.server_address import ServerAddress
from holdfast.spark.source.batch_input import TargetNames, batch_input_at
from holdfast.spark.source.offsets import PIECES_MAX, pieces_of, thinned
from holdfast.spark.source.read_target import ReadTarget


@dataclass
class BatchPiece(InputPartition):
    """The part of a read that one task reads."""

    target: ReadTarget
    start: int
    end: int


class HoldfastReader(DataSourceReader):
    def __init__(self, options: BatchOptions, shape: Shape) -> None:
        self._options = options
        self._shape = shape

    def partitions(self) -> list[InputPartition]:
        wanted = TargetNames(self._options.destinations, self._options.subscription)
        extents = batch_input_at(ServerAddress.of(self._options)).extents(wanted, max(PIECES_MAX, self._options.partitions_min))
        return [piece for target, extent in extents.items() for piece in self._pieces(target, extent)]

    def _pieces(self, target: ReadTarget, extent: Extent) -> list[BatchPiece]:
        cuts = thinned(extent.cuts, pieces_of(extent, self._options.partitions_min))
        places = [extent.start, *cuts, extent.end]
        return [BatchPiece(target, low, high) for low, high in pairwise(places) if low < high]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Spark makes a partition of its own where there is none."""
        if not isinstance(partition, BatchPiece):
            return iter(())
        place = batch_input_at(ServerAddress.of(self._options))
        within = _bounds(self._options)
        slices = place.slices(partition.target, partition.start, partition.end, self._options.selector, within)
        return self._shape.batches(slices)


def _bounds(options: BatchOptions) -> Bounds:
    given = (options.start_position, options.end_position, options.start_us, options.end_us)
    return Bounds(*(default if value is None else value for value, default in zip(given, EVERYTHING, strict=True)))
