"""format("holdfast_lake") and its options.

    frame.writeStream.format("holdfast_lake").option("checkpointLocation", …).start("/data/events")
    frame.write.format("holdfast_lake").mode("append").save("/data/events")
    spark.read.format("holdfast_lake").load("/data/events")

    path          the folder of the table; every node has it mounted
    partitionBy   columns, separated by commas; date,destination unless said otherwise. `date` is taken from accepted_at (UTC)
    scope         of a write that is not a stream: whose rows these are, so that they can be written again without doing it twice
    number        which of its writes this is: one that is not above the last of its scope adds nothing

The output mode "complete" of a stream, and the mode "overwrite", put new rows in the place of all old ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from holdfast.errors import BadSetting
from holdfast.spark.lake.sink import DATE, DESTINATION, LakeBatchWriter, LakeStreamWriter
from holdfast.spark.lake.source import LakeReader, schema_of
from holdfast.spark.lake.table import Mode, local_folder
from holdfast.spark.option_reader import OptionReader

_READS = ("path",)
_WRITES = (*_READS, "partitionBy", "scope", "number")
_NUMBER_MAX = (1 << 62) - 1


@dataclass(frozen=True)
class LakeOptions:
    folder: str
    partition_by: tuple[str, ...]
    scope: str
    number: int

    @classmethod
    def of(cls, options: Mapping[str, str]) -> LakeOptions:
        """BadSetting for what is missing, unknown or not understood."""
        given = OptionReader(options, "writing a lake table", _WRITES)
        if given.has("scope") != given.has("number"):
            raise BadSetting(
                "options scope and number belong together: whose write this is, and which of its writes; give both or neither",
                setting="number",
            )
        return cls(_folder(given), _partition_by(given), given.text("scope"), given.whole("number", 0, _NUMBER_MAX) or 0)


def _folder(given: OptionReader) -> str:
    return local_folder(given.required("path", "/data/events: the folder of the table"))


def _partition_by(given: OptionReader) -> tuple[str, ...]:
    names = tuple(each.strip() for each in given.text("partitionBy", f"{DATE},{DESTINATION}").split(","))
    if not all(names) or len(set(names)) != len(names):
        raise BadSetting(
            f"option partitionBy = {','.join(names)!r:.200}: name one or more columns, each once", setting="partitionBy"
        )
    return names


class LakeSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "holdfast_lake"

    def schema(self) -> StructType:
        return schema_of(self._read_folder())

    def reader(self, schema: StructType) -> LakeReader:
        return LakeReader(self._read_folder(), schema)

    def _read_folder(self) -> str:
        return _folder(OptionReader(self.options, "reading a lake table", _READS, dict.fromkeys(_WRITES, "writing")))

    def writer(self, schema: StructType, overwrite: bool) -> LakeBatchWriter:
        options = LakeOptions.of(self.options)
        mode: Mode = "overwrite" if overwrite else "append"
        return LakeBatchWriter(options.folder, options.partition_by, schema, mode, options.scope, options.number)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LakeStreamWriter:  # noqa: N802 - Spark's name
        options = LakeOptions.of(self.options)
        if options.scope:
            raise BadSetting(
                "a stream is its own scope, and its batches are its numbers; leave scope and number out", setting="scope"
            )
        return LakeStreamWriter(options.folder, options.partition_by, schema, "overwrite" if overwrite else "append")
