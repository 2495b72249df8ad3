"""D1: what a lake table refuses, each time with a sentence that says what to do; called without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType, TimestampType

from holdfast.errors import BadEvent, BadSetting, CheckpointMismatch, DiskFailed, Refused
from holdfast.spark.lake.format import LakeSource
from holdfast.spark.lake.table import Lake, local_folder
from tests.spark.lake_rows import SPARK_SCHEMA, add_batch, positions, rows, stream_writer, write


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "needs the option path"),
        ({"path": " "}, "it is empty"),
        ({"path": "s3://bucket/events"}, "every node of the cluster has mounted"),
        ({"path": "file:"}, "names no folder"),
        ({"path": "/data/x", "partitonBy": "date"}, "Did you mean partitionBy"),
        ({"path": "/data/x", "colour": "red"}, "There are: number, partitionBy, path, scope"),
        ({"path": "/data/x", "partitionBy": "date,date"}, "each once"),
        ({"path": "/data/x", "scope": "nightly"}, "belong together"),
        ({"path": "/data/x", "scope": "nightly", "number": "-1"}, "give a whole number"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused_with_what_to_do(options: dict[str, str], said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        LakeSource(options).writer(SPARK_SCHEMA, False)


def test_a_stream_does_not_take_a_scope_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="its own scope"):
        stream_writer(tmp_path, scope="mine", number="1")


@pytest.mark.parametrize(("path", "folder"), [("/a/b", "/a/b"), ("file:/a/b", "/a/b"), ("file:///a/b%20c", "/a/b c")])
def test_a_folder_may_be_given_as_a_path_or_as_a_file_url(path: str, folder: str) -> None:
    assert local_folder(path) == folder


@pytest.mark.parametrize(("column", "said"), [("destination", "no column 'destination'"), ("accepted_at", "accepted_at")])
def test_a_frame_without_a_column_that_partitions_need_is_refused(tmp_path: Path, column: str, said: str) -> None:
    schema = StructType([field for field in SPARK_SCHEMA if field.name != column])

    with pytest.raises(BadSetting, match=said):
        stream_writer(tmp_path, schema)


@pytest.mark.parametrize("name", [None, ""])
def test_a_row_without_destination_is_refused(tmp_path: Path, name: str | None) -> None:
    with pytest.raises(BadEvent, match="1 rows have no destination"):
        write(stream_writer(tmp_path), rows([1, 2], ("orders", name)))


def test_a_row_that_belongs_to_no_day_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadEvent, match="no accepted_at and no time"):
        write(stream_writer(tmp_path), rows([1], accepted_at=None, time=None))


def test_a_table_that_was_made_with_other_columns_is_refused_naming_them(tmp_path: Path) -> None:
    add_batch(tmp_path, 0, rows([1]))
    schema = StructType(
        [
            StructField("destination", StringType()),
            StructField("position", StringType()),
            StructField("accepted_at", TimestampType()),
            StructField("extra", IntegerType()),
        ]
    )

    with pytest.raises(BadSetting, match=r"extra: missing there, integer here.*position: long there, string here"):
        stream_writer(tmp_path, schema)


def test_a_table_with_other_partitions_is_refused(tmp_path: Path) -> None:
    add_batch(tmp_path, 0, rows([1]))

    with pytest.raises(BadSetting, match=r"date.*missing here|partitioned by date, destination"):
        stream_writer(tmp_path, partitionBy="destination")


def test_the_same_columns_in_another_order_fit(tmp_path: Path) -> None:
    add_batch(tmp_path, 0, rows([1]))
    schema = StructType(list(reversed(SPARK_SCHEMA.fields)))
    writer = stream_writer(tmp_path, schema)

    writer.commit([write(writer, rows([2]).select(schema.names))], 1)

    assert positions(tmp_path) == [1, 2]


def test_a_folder_that_holds_something_else_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"x")

    with pytest.raises(BadSetting, match=r"holds 'holiday.jpg' and is no Delta table"):
        stream_writer(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["holiday.jpg"]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")

    with pytest.raises(DiskFailed, match="give a folder"):
        stream_writer(tmp_path / "file")
    with pytest.raises(DiskFailed, match="cannot be"):
        stream_writer(tmp_path / "file" / "lake")


def test_a_task_that_cannot_write_says_where_and_why(tmp_path: Path) -> None:
    writer = stream_writer(tmp_path)
    (tmp_path / "date=2026-11-16").write_bytes(b"in the way")

    with pytest.raises(DiskFailed, match=r"could not be written to .*date=2026-11-16"):
        write(writer, rows([1]))


def test_what_is_not_a_table_is_not_read_as_one(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="is not a Delta table"):
        LakeSource({"path": str(tmp_path)}).schema()


def test_a_task_that_is_not_told_its_query_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="which query"):
        write(stream_writer(tmp_path), rows([1]), query=None)


def test_commits_of_two_processes_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = stream_writer(tmp_path)
    message = write(writer, rows([1]))
    monkeypatch.setattr("holdfast.spark.lake.table.LOCK_WAIT_S", 0.1)

    with Lake(str(tmp_path))._locked(), pytest.raises(Exception, match="another process has been committing"):
        writer.commit([message], 0)

    writer.commit([message], 0)
    assert positions(tmp_path) == [1]


def test_a_batch_older_than_the_last_one_of_its_query_is_refused_and_nothing_is_taken_for_a_repetition(tmp_path: Path) -> None:
    """As with a checkpoint from a backup: the number is known, the rows are not."""
    for number in (10, 11, 12):
        add_batch(tmp_path, number, rows([number]))

    with pytest.raises(CheckpointMismatch, match=r"has batch 12 of this query.*is at batch 11.*new checkpoint"):
        add_batch(tmp_path, 11, rows([99]))

    assert positions(tmp_path) == [10, 11, 12]
