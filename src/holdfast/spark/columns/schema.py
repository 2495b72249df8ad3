"""The columns of an event, as Spark and Arrow name them, and which of them a read is to have.

    attributes     id source type time subject datacontenttype dataschema           as in CloudEvents
    where, when    destination position accepted_at
    messaging      event_group correlation_id reply_to priority expires_at properties
    data           size data bad_data

`data` is binary, string or a struct, by the format that was asked for. In the latter two `bad_data` holds the bytes that did not
fit, and `data` is then null. The data of a large event (sent with `send_stream`) is never in a table: null, with its `size`.
`properties` is a map of texts, or one text in JSON, in which each property keeps its type.

Spark's schema and Arrow's are made from one list, because Spark takes record batches only when both agree in everything.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa

from holdfast.errors import BadSetting
from holdfast.spark.columns import ddl

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

Format = Literal["binary", "text", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)
PropertyFormat = Literal["text", "json"]
PROPERTY_FORMATS: tuple[PropertyFormat, ...] = get_args(PropertyFormat)

TIMESTAMP = pa.timestamp("us", tz="UTC")
PROPERTIES = pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string()))
_OF_EVERY_FORMAT = (
    pa.field("destination", pa.string(), nullable=False),
    pa.field("position", pa.int64(), nullable=False),
    pa.field("accepted_at", TIMESTAMP),
    pa.field("id", pa.string(), nullable=False),
    pa.field("source", pa.string(), nullable=False),
    pa.field("type", pa.string(), nullable=False),
    pa.field("time", TIMESTAMP, nullable=False),
    pa.field("subject", pa.string()),
    pa.field("datacontenttype", pa.string(), nullable=False),
    pa.field("dataschema", pa.string()),
    pa.field("event_group", pa.string()),
    pa.field("correlation_id", pa.string()),
    pa.field("reply_to", pa.string()),
    pa.field("priority", pa.int32(), nullable=False),
    pa.field("expires_at", TIMESTAMP),
    pa.field("size", pa.int64(), nullable=False),
    pa.field("properties", PROPERTIES, nullable=False),
)
COLUMNS = (*(field.name for field in _OF_EVERY_FORMAT), "data", "bad_data")


@dataclass(frozen=True)
class Layout:
    """Which columns are wanted, in this order, and what the data is. Small and plain: it travels to every executor."""

    columns: tuple[str, ...]
    format: Format = "binary"
    data_schema: str = ""  # DDL, for JSON
    properties: PropertyFormat = "text"

    @classmethod
    def of(
        cls,
        columns: tuple[str, ...] | None = None,
        format: Format = "binary",
        data_schema: str = "",
        properties: PropertyFormat = "text",
    ) -> Layout:
        """BadSetting for what is not possible. All columns unless some are named."""
        if format not in FORMATS:
            raise BadSetting(f"there is no format {format!r:.40}; there are: {', '.join(FORMATS)}", setting="format")
        if format == "json" and not data_schema:
            raise BadSetting(
                "format json needs the option dataSchema, such as 'id BIGINT, name STRING'; "
                "without one, read the data as text and use from_json",
                setting="dataSchema",
            )
        if format != "json" and data_schema:
            raise BadSetting(
                f"dataSchema is for format json, and this is {format}; set format to json, or leave dataSchema out",
                setting="dataSchema",
            )
        known = COLUMNS if format != "binary" else COLUMNS[:-1]
        return cls(_checked(columns, known) if columns is not None else known, format, _readable(data_schema), properties)

    @property
    def arrow(self) -> pa.Schema:
        return _arrow_schema(self)

    @property
    def data_type(self) -> pa.DataType:
        return _data_type(self.format, self.data_schema)

    def spark(self) -> StructType:
        """The schema for Spark."""
        from pyspark.sql.types import StructField, StructType

        return StructType([StructField(field.name, spark_type(field.type), field.nullable) for field in self.arrow])


def _checked(columns: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    for name in columns:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise BadSetting(f"there is no column {name!r:.80}{meant} There are: {', '.join(known)}", setting="columns")
    if not columns or len(set(columns)) != len(columns):
        raise BadSetting("columns are to be one or more, each once; leave the option out for all of them", setting="columns")
    return columns


def _readable(data_schema: str) -> str:
    if data_schema:
        ddl.parse(data_schema)
    return data_schema


@lru_cache(maxsize=64)
def _data_type(format: Format, data_schema: str) -> pa.DataType:
    if format == "json":
        return ddl.parse(data_schema)
    return pa.string() if format == "text" else pa.binary()


@lru_cache(maxsize=64)
def _arrow_schema(layout: Layout) -> pa.Schema:
    fields = {field.name: field for field in _OF_EVERY_FORMAT}
    fields["data"] = pa.field("data", layout.data_type)
    fields["bad_data"] = pa.field("bad_data", pa.binary())
    if layout.properties == "json":
        fields["properties"] = pa.field("properties", pa.string(), nullable=False)
    return pa.schema([fields[name] for name in layout.columns])


def spark_type(kind: pa.DataType) -> DataType:
    """Spark's type for one of the Arrow types that occur here."""
    from pyspark.sql import types

    if pa.types.is_struct(kind):
        return types.StructType([types.StructField(each.name, spark_type(each.type), each.nullable) for each in kind])
    if pa.types.is_map(kind):
        return types.MapType(types.StringType(), spark_type(kind.item_type), kind.item_field.nullable)
    if pa.types.is_list(kind):
        return types.ArrayType(spark_type(kind.value_type), kind.value_field.nullable)
    if pa.types.is_decimal(kind):
        return types.DecimalType(kind.precision, kind.scale)
    plain: dict[Any, DataType] = {
        pa.bool_(): types.BooleanType(), pa.int8(): types.ByteType(), pa.int16(): types.ShortType(),
        pa.int32(): types.IntegerType(), pa.int64(): types.LongType(), pa.float32(): types.FloatType(),
        pa.float64(): types.DoubleType(), pa.string(): types.StringType(), pa.binary(): types.BinaryType(),
        pa.date32(): types.DateType(), TIMESTAMP: types.TimestampType(), pa.timestamp("us"): types.TimestampNTZType(),
    }  # fmt: skip
    return plain[kind]
