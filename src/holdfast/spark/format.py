"""format("holdfast"): events as a stream, events as they lie, and rows as events.

    spark.readStream.format("holdfast").option("url", …).option("destinations", "alerts.*,orders").option("subscription", "lake")
    spark.read.format("holdfast").option("url", …).option("destinations", "orders")
    frame.writeStream.format("holdfast"), frame.write.format("holdfast")

Options are in `options`, columns in `columns.schema`. Leave columns out with the option `columns`, or with a schema that lacks
them: then they are not made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from holdfast.spark.columns.shape import Shape
from holdfast.spark.options import BatchOptions, SourceOptions, StreamOptions

if TYPE_CHECKING:
    from holdfast.spark.sink.sink import HoldfastStreamWriter, HoldfastWriter
    from holdfast.spark.source.batch_reader import HoldfastReader
    from holdfast.spark.source.stream_reader import HoldfastStreamReader


class HoldfastSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "holdfast"

    def schema(self) -> StructType:
        return SourceOptions.of(self.options).layout.spark()

    def reader(self, schema: StructType) -> HoldfastReader:
        from holdfast.spark.source.batch_reader import HoldfastReader

        options = BatchOptions.of(self.options)
        return HoldfastReader(options, Shape.of(schema, options.layout))

    def streamReader(self, schema: StructType) -> HoldfastStreamReader:  # noqa: N802 - Spark's name
        from holdfast.spark.source.stream_reader import HoldfastStreamReader

        options = StreamOptions.of(self.options)
        return HoldfastStreamReader(options, Shape.of(schema, options.layout))

    def writer(self, schema: StructType, overwrite: bool) -> HoldfastWriter:
        from holdfast.spark.sink.sink import HoldfastWriter

        return HoldfastWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> HoldfastStreamWriter:  # noqa: N802 - Spark's name
        from holdfast.spark.sink.sink import HoldfastStreamWriter

        return HoldfastStreamWriter(self.options, schema, overwrite)
