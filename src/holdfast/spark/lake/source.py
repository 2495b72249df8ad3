"""format("holdfast_lake"), the other way: a version of a lake table as a frame, with nothing of what no version names.

Any reader of Delta tables does as well. This one is for Spark without Delta's own packages; each file of the table is a task.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.errors import Unavailable

ROWS = 10_000


@dataclass
class LakePart(InputPartition):
    """A file of the table, and the values of the columns that are not in it."""

    path: str
    values: dict[str, str | None]


def schema_of(folder: str) -> StructType:
    """The table's columns: the Delta log writes them as Spark does."""
    from holdfast.spark.lake.table import Lake

    return StructType.fromJson(json.loads(Lake(folder).table().schema().to_json()))


class LakeReader(DataSourceReader):
    def __init__(self, folder: str, schema: StructType) -> None:
        self._folder = folder
        self._schema = to_arrow_schema(schema, timezone="UTC")

    def partitions(self) -> Sequence[InputPartition]:
        from holdfast.spark.lake.table import Lake

        lake = Lake(self._folder)
        parts = [LakePart(file.path, file.partition) for file in lake.files(lake.table())]
        return parts or [LakePart("", {})]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LakePart)
        if not partition.path:
            return
        try:
            file = pq.ParquetFile(os.path.join(self._folder, partition.path))
        except OSError as problem:
            raise Unavailable(
                f"{partition.path} of the table {self._folder} cannot be read ({problem}); if it was vacuumed meanwhile, "
                "read the table again"
            ) from problem
        wanted = [name for name in self._schema.names if name not in partition.values]
        with file:
            for batch in file.iter_batches(ROWS, columns=wanted):
                yield self._whole(batch, partition.values)

    def _whole(self, batch: pa.RecordBatch, values: dict[str, str | None]) -> pa.RecordBatch:
        columns = [
            pa.repeat(pa.scalar(values[field.name], pa.string()), batch.num_rows).cast(field.type)
            if field.name in values
            else batch.column(field.name).cast(field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)
