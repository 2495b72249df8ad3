"""A yardstick: a Python source of Spark that yields Arrow batches which are ready-made, as fast as Spark takes them.

What any source in Python could reach at best: its rows lie in a file of Arrow's own format, which is mapped, not read. Every
piece of every batch has the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

NAME = "ready_made"


@dataclass
class Piece(InputPartition):
    number: int


class ReadyMade(DataSource):
    """Options: `file`, what one piece yields; `pieces` of a batch; `batches` until there is no more."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        with pa.memory_map(self.options["file"]) as mapped:
            return from_arrow_schema(pa.ipc.open_file(mapped).schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return ReadyMadeReader(self.options["file"], int(self.options["pieces"]), int(self.options["batches"]))


class ReadyMadeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, file: str, pieces: int, batches: int) -> None:
        self._file = file
        self._pieces = pieces
        self._batches = batches

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return {"batch": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return {"batch": min(start["batch"] + 1, self._batches)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """There is never more than `batches`."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [Piece(number) for number in range(self._pieces)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(self._file) as mapped:
            reader = pa.ipc.open_file(mapped)
            for place in range(reader.num_record_batches):
                yield reader.get_batch(place)
