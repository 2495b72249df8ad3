"""JSON bodies as structs (D1): what fits is a row, what does not is bad data, nothing is a crash."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.event.event import Head, LargeBody
from holdfast.spark.columns import ddl
from holdfast.spark.columns.columns import to_record_batches
from holdfast.spark.columns.json_data import parse
from holdfast.spark.columns.schema import Layout
from tests.spark_slices import slice_of

ORDER = "id BIGINT NOT NULL, name STRING, lines ARRAY<STRUCT<sku: STRING, n: TINYINT>>, labels MAP<STRING, DOUBLE>"


def one(schema: str, body: str | bytes) -> Any:
    """The row of a body, or "unfit"."""
    made, unfit = parse([body.encode() if isinstance(body, str) else body], ddl.parse(schema))
    made.validate(full=True)
    return "unfit" if unfit else made[0].as_py()


def test_what_fits_becomes_a_row_with_null_for_what_is_missing() -> None:
    whole = '{"id": 1, "name": "a", "lines": [{"sku": "x", "n": 2}, null], "labels": {"w": 1, "v": null}, "other": [1]}'

    assert one(ORDER, whole) == {
        "id": 1,
        "name": "a",
        "lines": [{"sku": "x", "n": 2}, None],
        "labels": [("w", 1.0), ("v", None)],
    }
    assert one(ORDER, '{"id": 1}') == {"id": 1, "name": None, "lines": None, "labels": None}


@pytest.mark.parametrize("body", ["", "null", " null "])
def test_no_data_is_null_and_not_bad(body: str) -> None:
    assert one(ORDER, body) is None


@pytest.mark.parametrize(
    ("schema", "body", "value"),
    [
        ("a TINYINT", "-128", -128),
        ("a BIGINT", "9223372036854775807", (1 << 63) - 1),
        ("a DOUBLE", "1", 1.0),
        ("a FLOAT", "0.5", 0.5),
        ("a DECIMAL(10, 2)", '"12.5"', Decimal("12.50")),
        ("a DECIMAL(10, 2)", "12.25", Decimal("12.25")),
        ("a STRING", '"stra\\u00dfe"', "straße"),
        ("a BINARY", '"aGk="', b"hi"),
        ("a DATE", '"2026-01-31"', date(2026, 1, 31)),
        ("a TIMESTAMP", '"2026-01-31T08:00:00+02:00"', datetime(2026, 1, 31, 6, tzinfo=UTC)),
        ("a TIMESTAMP", '"2026-01-31T08:00:00"', datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("a TIMESTAMP_NTZ", '"2026-01-31T08:00:00"', datetime(2026, 1, 31, 8)),
        ("a BOOLEAN", "true", True),
        ("a ARRAY<ARRAY<INT>>", "[[1], null, []]", [[1], None, []]),
        ("a MAP<STRING, STRUCT<b: INT>>", '{"k": {"b": 1}}', [("k", {"b": 1})]),
    ],
)
def test_every_type_is_read(schema: str, body: str, value: Any) -> None:
    assert one(schema, f'{{"a": {body}}}') == {"a": value}


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        ("a INT", "no json"),
        ("a INT", '{"a": 1'),
        ("a INT", '{"a": 1} {"a": 2}'),
        ("a INT", "[1]"),
        ("a INT", '{"a": "1"}'),
        ("a INT", '{"a": 1.5}'),
        ("a INT", '{"a": true}'),
        ("a INT", '{"a": 2147483648}'),
        ("a TINYINT", '{"a": 128}'),
        ("a BIGINT", '{"a": 9223372036854775808}'),
        ("a BIGINT", '{"a": 123456789012345678901234567890}'),
        ("a FLOAT", '{"a": 1e39}'),
        ("a DOUBLE", '{"a": 1e999}'),
        ("a DOUBLE", '{"a": NaN}'),
        ("a STRING", '{"a": 1}'),
        ("a STRING", b'{"a": "\xff"}'),
        ("a STRING", '{"a": "\\ud800"}'),
        ("a BINARY", '{"a": "*"}'),
        ("a DATE", '{"a": "31.1.2026"}'),
        ("a TIMESTAMP", '{"a": "yesterday"}'),
        ("a TIMESTAMP_NTZ", '{"a": "2026-01-31T08:00:00Z"}'),
        ("a DECIMAL(4, 2)", '{"a": "123.45"}'),
        ("a DECIMAL(4, 2)", '{"a": "1.234"}'),
        ("a DECIMAL(4, 2)", '{"a": "1e999999999"}'),
        ("a DECIMAL(4, 2)", '{"a": "NaN"}'),
        ("a INT NOT NULL", "{}"),
        ("a INT NOT NULL", '{"a": null}'),
        ("a STRUCT<b: INT NOT NULL>", '{"a": {}}'),
        ("a INT", '{"b": ' + "[" * 100_000 + "]" * 100_000 + "}"),
        ("a INT", "[" * 100_000),
    ],
)
def test_what_does_not_fit_is_told_and_stops_nothing(schema: str, body: str | bytes) -> None:
    assert one(schema, body) == "unfit"


def test_one_that_does_not_fit_leaves_the_others_what_they_are() -> None:
    large = Head(large=LargeBody(7, 7, b""))
    bodies = [b'{"a": "1.5"}', b'{"a": "1.23456"}', b"nonsense", b"", b'{"a": null}', b'{"a": "2"}', b""]
    made = slice_of([*[Head()] * 6, large], bodies)
    layout = Layout.of(("data", "bad_data"), "json", "a DECIMAL(6, 2)")

    found = pa.Table.from_batches(to_record_batches([made], layout))

    found.validate(full=True)
    assert [row["data"] and row["data"]["a"] for row in found.to_pylist()] == [
        Decimal("1.50"), None, None, None, None, Decimal("2.00"), None,
    ]  # fmt: skip
    assert found.column("data").combine_chunks().is_null().to_pylist() == [False, True, True, True, False, False, True]
    assert found.column("bad_data").to_pylist() == [None, b'{"a": "1.23456"}', b"nonsense", None, None, None, None]


def test_pieces_of_json_in_two_bodies_are_not_taken_for_one() -> None:
    made, unfit = parse([b'{"a": 1}{"a": 2', b"}", b'{"a":\n 3}'], ddl.parse("a INT"))

    assert unfit == [0, 1]
    assert made.to_pylist() == [None, None, {"a": 3}]


def test_names_of_fields_may_be_anything() -> None:
    assert one("`order id` INT, `ключ` INT, class INT, f0 INT", '{"order id": 1, "ключ": 2, "class": 3, "f0": 4}') == {
        "order id": 1,
        "ключ": 2,
        "class": 3,
        "f0": 4,
    }


@given(st.lists(st.binary(max_size=40) | st.text(alphabet='{}[]":,0123456789eaidnul', max_size=30).map(str.encode), max_size=8))
def test_no_body_is_a_crash(bodies: list[bytes]) -> None:
    made, unfit = parse(bodies, ddl.parse(ORDER))

    made.validate(full=True)
    assert len(made) == len(bodies)
    assert all(made[index].as_py() is None for index in unfit)
