"""The columns of an event for Spark and for Arrow (D1): both agree in everything, and what is not possible is refused."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.errors import BadSetting
from holdfast.spark.columns import ddl
from holdfast.spark.columns.schema import COLUMNS, Layout

EVERYTHING = (
    "b BOOLEAN NOT NULL, t TINYINT, s SMALLINT, i INT, l BIGINT COMMENT 'it''s', f FLOAT, d DOUBLE, m DECIMAL(38, 9), n DECIMAL, "
    "x STRING, y BINARY, z DATE, w TIMESTAMP, v TIMESTAMP_NTZ, a ARRAY<STRUCT<p: INT NOT NULL, `q r`: ARRAY<STRING>>>, "
    "g MAP<STRING, MAP<STRING, DOUBLE>>"
)


@pytest.mark.parametrize(
    "layout", [Layout.of(), Layout.of(None, "text"), Layout.of(None, "json", EVERYTHING), Layout.of(("data", "id"))], ids=str
)
def test_the_arrow_schema_is_the_one_that_spark_expects_for_its_own(layout: Layout) -> None:
    expected = to_arrow_schema(layout.spark(), timezone="UTC")

    assert expected.equals(layout.arrow)
    assert [field.nullable for field in expected] == [field.nullable for field in layout.arrow]


def test_the_columns_are_those_that_are_promised_in_this_order() -> None:
    assert Layout.of().arrow.names == list(COLUMNS[:-1])
    assert Layout.of(None, "text").arrow.names == list(COLUMNS)
    assert [field.name for field in Layout.of().arrow if field.nullable] == [
        "accepted_at", "subject", "dataschema", "event_group", "correlation_id", "reply_to", "expires_at", "data",
    ]  # fmt: skip


def test_a_layout_travels_to_executors() -> None:
    layout = Layout.of(("data",), "json", "a INT")

    assert pickle.loads(pickle.dumps(layout)).arrow == layout.arrow


def test_the_ddl_is_understood_as_spark_understands_it() -> None:
    """Spark's own reading of DDL needs a session; what it made of this one is written down here."""
    spark = Layout.of(("data",), "json", EVERYTHING).spark()["data"].dataType

    assert isinstance(spark, StructType)
    assert spark.simpleString() == (
        "struct<b:boolean,t:tinyint,s:smallint,i:int,l:bigint,f:float,d:double,m:decimal(38,9),n:decimal(10,0),x:string,y:binary,"
        "z:date,w:timestamp,v:timestamp_ntz,a:array<struct<p:int,q r:array<string>>>,g:map<string,map<string,double>>>"
    )
    assert not spark["b"].nullable
    assert spark["t"].nullable


@pytest.mark.parametrize("text", ["a INT, b STRING", "a: int, b: string", "struct<a: int, b: string>", " A int ,B STRING "])
def test_fields_may_be_written_as_people_and_as_spark_write_them(text: str) -> None:
    assert [field.type for field in ddl.parse(text)] == [pa.int32(), pa.string()]


def test_a_field_may_be_called_like_a_type() -> None:
    assert [field.name for field in ddl.parse("struct INT, `array` STRING, map: DATE")] == ["struct", "array", "map"]


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("", None, "empty"),
        ("   ", None, "empty"),
        ("a", 2, "no type ''"),
        ("a INTT", 3, "no type 'INTT'"),
        ("a INT b INT", 7, "comma"),
        ("a INT,", 7, "name of a field"),
        ("a INT, a STRING", 8, "two fields 'a'"),
        ("a INT NOT", 10, "'null'"),
        ("a INT COMMENT x", 15, "comment in quotes"),
        ("a ARRAY<INT", 12, "'>'"),
        ("a ARRAY", 8, "'<'"),
        ("a STRUCT<>", 10, "name of a field"),
        ("a MAP<INT, INT>", 7, "keys of a map"),
        ("a DECIMAL(39)", 13, "1 to 38 digits"),
        ("a DECIMAL(5, 6)", 15, "scale"),
        ("a DECIMAL(x)", 11, "a number"),
        ("a INT) b", 6, "comma"),
        ("struct<a: int> b", 16, "nothing more"),
        ("a-b INT", 2, "backticks"),
        ("a " + "ARRAY<" * 60 + "INT" + ">" * 60, 303, "more than 50 levels"),
    ],
)
def test_a_schema_that_is_none_is_refused_with_the_place(text: str, column: int | None, said: str) -> None:
    with pytest.raises(BadSetting, match="dataSchema") as caught:
        ddl.parse(text)

    assert said in caught.value.sentence
    assert caught.value.fields.get("column") == column


@pytest.mark.parametrize(
    ("columns", "format", "schema", "said"),
    [
        (("dat",), "binary", "", "did you mean 'data'"),
        (("bad_data",), "binary", "", "no column 'bad_data'"),
        ((), "binary", "", "one or more"),
        (("id", "id"), "binary", "", "each once"),
        (None, "avro", "", "no format 'avro'"),
        (None, "json", "", "needs the option dataSchema"),
        (None, "text", "a INT", "is for format json"),
        (None, "json", "a", "column 2"),
    ],
)
def test_a_layout_that_is_not_possible_is_refused(columns: tuple[str, ...] | None, format: str, schema: str, said: str) -> None:
    with pytest.raises(BadSetting) as caught:
        Layout.of(columns, format, schema)  # type: ignore[arg-type]

    assert said in caught.value.sentence
