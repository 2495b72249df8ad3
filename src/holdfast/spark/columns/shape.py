"""The shape of the rows that Spark was promised: which columns, and what they may be.

A schema that is given with `.schema(…)` may have fewer columns, in another order, and may allow nulls where there are none; but
no other columns, and no other types. Spark takes a record batch only if it agrees with the schema in everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.errors import BadSetting
from holdfast.spark.columns.columns import ReadSlice, to_record_batches
from holdfast.spark.columns.schema import Layout
from holdfast.spark.worker_memory import freeze_loaded


@dataclass(frozen=True)
class Shape:
    layout: Layout
    promised: pa.Schema | None  # where it is not that of the layout

    @classmethod
    def of(cls, schema: StructType, offered: Layout) -> Shape:
        """BadSetting for columns that there are not, or that are something else."""
        if schema == offered.spark():
            return cls(offered, None)
        layout = Layout.of(tuple(schema.names), offered.format, offered.data_schema, offered.properties)
        for field in layout.spark():
            given = schema[field.name].dataType.simpleString()
            if given != field.dataType.simpleString():
                raise BadSetting(
                    f"column {field.name!r} is {field.dataType.simpleString()}, not {given} as the schema says; correct "
                    "it, or leave the schema out and cast the column in the query",
                    column=field.name,
                )
        return cls(layout, to_arrow_schema(schema, timezone="UTC"))

    def batches(self, slices: Iterable[ReadSlice]) -> Iterator[pa.RecordBatch]:
        """The record batches of a task."""
        made = to_record_batches(slices, self.layout)
        yield from made if self.promised is None else (batch.cast(self.promised) for batch in made)
        freeze_loaded()
