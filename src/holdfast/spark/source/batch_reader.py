"""The batch source: what a queue or a subscription holds at one moment, looked at and not taken (D2).

    url=holdfast://…   the server is asked how far what waits goes; tasks read their pieces of it straight from it
    url=file:DIR       the same from the journal in a folder, which nobody need have open; every node must see the folder

What is confirmed or expires before its piece is read is not in the frame. A frame is read again with every action on it: cache
it, or write it down, where that matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from holdfast.client.reading import Extent
from holdfast.event.bounds import EVERYTHING, Bounds
from holdfast.spark.columns.shape import Shape
from holdfast.spark.options import BatchOptions
from holdfast.spark.source.connecting import Connection, Holding
from holdfast.spark.source.holdings import Wanted, place_at
from holdfast.spark.source.offsets import thinned
from holdfast.spark.source.planning import PIECES_MAX, pieces_of


@dataclass
class BatchPiece(InputPartition):
    """What one task reads."""

    holding: Holding
    start: int
    end: int


class HoldfastReader(DataSourceReader):
    def __init__(self, options: BatchOptions, shape: Shape) -> None:
        self._options = options
        self._shape = shape

    def partitions(self) -> list[InputPartition]:
        wanted = Wanted(self._options.destinations, self._options.subscription)
        extents = place_at(Connection.of(self._options)).extents(wanted, max(PIECES_MAX, self._options.partitions_min))
        return [piece for holding, extent in extents.items() for piece in self._pieces(holding, extent)]

    def _pieces(self, holding: Holding, extent: Extent) -> list[BatchPiece]:
        cuts = thinned(extent.cuts, pieces_of(extent, self._options.partitions_min))
        places = [extent.start, *cuts, extent.end]
        return [BatchPiece(holding, low, high) for low, high in pairwise(places) if low < high]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Spark makes a partition of its own where there is none."""
        if not isinstance(partition, BatchPiece):
            return iter(())
        place = place_at(Connection.of(self._options))
        within = _bounds(self._options)
        slices = place.slices(partition.holding, partition.start, partition.end, self._options.selector, within)
        return self._shape.batches(slices)


def _bounds(options: BatchOptions) -> Bounds:
    given = (options.start_position, options.end_position, options.start_us, options.end_us)
    return Bounds(*(default if value is None else value for value, default in zip(given, EVERYTHING, strict=True)))
