"""D1, D4: a lake table holds each batch of a query once, whatever is called twice, comes late or fails; called without Spark."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from holdfast.errors import BadEvent, Damaged
from holdfast.spark.lake import files
from tests.spark.lake_rows import (
    NOON,
    QUERY,
    add_batch,
    batch_writer,
    parquet_files,
    positions,
    read,
    rows,
    stream_writer,
    write,
)

# --- once ---------------------------------------------------------------------------------------------------------------


def test_a_batch_that_is_committed_twice_is_in_the_table_once(tmp_path: Path) -> None:
    writer = stream_writer(tmp_path / "lake")
    message = write(writer, rows(range(10)))

    writer.commit([message], 0)
    stream_writer(tmp_path / "lake").commit([message], 0)

    assert positions(tmp_path / "lake") == list(range(10))


def test_a_batch_that_is_written_again_after_a_crash_is_in_the_table_once(tmp_path: Path) -> None:
    add_batch(tmp_path, 0, rows(range(10)))
    add_batch(tmp_path, 1, rows(range(10, 20)))

    add_batch(tmp_path, 1, rows(range(10, 20)))

    assert positions(tmp_path) == list(range(20))


def test_an_abort_after_a_commit_that_seemed_to_fail_takes_nothing_back(tmp_path: Path) -> None:
    writer = stream_writer(tmp_path)
    message = write(writer, rows(range(10)))
    writer.commit([message], 0)

    writer.abort([message, None], 0)

    assert positions(tmp_path) == list(range(10))


def test_an_aborted_batch_is_not_in_the_table_and_can_be_written_again(tmp_path: Path) -> None:
    writer = stream_writer(tmp_path)
    writer.abort([write(writer, rows(range(5))), None], 0)

    add_batch(tmp_path, 0, rows(range(10)))

    assert positions(tmp_path) == list(range(10))


def test_queries_do_not_take_each_others_numbers(tmp_path: Path) -> None:
    writer = stream_writer(tmp_path)

    writer.commit([write(writer, rows(range(5)), query="one")], 0)
    writer.commit([write(writer, rows(range(5, 10)), query="two")], 0)

    assert positions(tmp_path) == list(range(10))


def test_all_tasks_of_a_batch_are_committed_in_one_version(tmp_path: Path) -> None:
    writer = stream_writer(tmp_path)
    messages = [write(writer, rows(range(start, start + 10), ("a", "b"))) for start in (0, 10, 20)]

    writer.commit(messages, 0)

    table = DeltaTable(tmp_path)
    assert (table.version(), len(table.file_uris()), table.transaction_version(QUERY)) == (1, 6, 0)


def test_a_batch_without_rows_makes_a_table_and_no_version_of_it(tmp_path: Path) -> None:
    add_batch(tmp_path, 0, rows([]))

    assert DeltaTable(tmp_path).version() == 0
    assert positions(tmp_path) == []


def test_a_write_that_is_not_a_stream_is_once_when_it_names_scope_and_number(tmp_path: Path) -> None:
    for _ in range(2):
        writer = batch_writer(tmp_path, scope="nightly", number="7")
        writer.commit([write(writer, rows(range(10)), query=None)])

    assert positions(tmp_path) == list(range(10))


def test_a_write_that_is_not_a_stream_and_names_no_scope_adds_each_time(tmp_path: Path) -> None:
    for _ in range(2):
        writer = batch_writer(tmp_path)
        writer.commit([write(writer, rows(range(3)), query=None)])
        writer.abort([])

    assert positions(tmp_path) == [0, 0, 1, 1, 2, 2]


def test_overwriting_puts_new_rows_in_the_place_of_all_old_ones(tmp_path: Path) -> None:
    add_batch(tmp_path, 0, rows(range(10), ("a", "b")))
    writer = stream_writer(tmp_path, overwrite=True)

    writer.commit([write(writer, rows([7]))], 1)

    assert positions(tmp_path) == [7]


def test_a_task_that_fails_takes_its_files_with_it(tmp_path: Path) -> None:
    writer = stream_writer(tmp_path)

    with pytest.raises(BadEvent):
        write(writer, rows(range(10)), rows([10], [None]))

    assert parquet_files(tmp_path) == []


# --- what it looks like -------------------------------------------------------------------------------------------------


def test_rows_are_partitioned_by_the_day_of_acceptance_in_utc_and_by_destination(tmp_path: Path) -> None:
    late = datetime(2026, 11, 16, 23, 59, 59, 999_999, tzinfo=UTC)  # already the 17th in the session's zone
    add_batch(tmp_path, 0, rows(range(4), ("orders", "plant/7/alarms"), accepted_at=late))

    found = DeltaTable(tmp_path).to_pyarrow_table()

    assert set(zip(found["date"].to_pylist(), found["destination"].to_pylist(), strict=True)) == {
        (date(2026, 11, 16), "orders"),
        (date(2026, 11, 16), "plant/7/alarms"),
    }
    assert {path.parent.relative_to(tmp_path).as_posix() for path in parquet_files(tmp_path)} == {
        "date=2026-11-16/destination=orders",
        "date=2026-11-16/destination=plant%2F7%2Falarms",
    }
    assert set(found["accepted_at"].to_pylist()) == {late}


def test_an_event_without_acceptance_belongs_to_the_day_on_which_it_was_recognised(tmp_path: Path) -> None:
    add_batch(tmp_path, 0, rows([1], accepted_at=None, time=NOON))

    assert DeltaTable(tmp_path).to_pyarrow_table()["date"].to_pylist() == [NOON.date()]


@pytest.mark.parametrize("name", ["..", "../../etc", "a%2Fb", "a b=c", "ü/€", "x" * 255, "/" * 255, "__HIVE_DEFAULT_PARTITION__"])
def test_whatever_a_destination_is_called_its_rows_stay_below_the_table_and_keep_its_name(tmp_path: Path, name: str) -> None:
    add_batch(tmp_path / "lake", 0, rows([1, 2], (name,)))

    assert DeltaTable(tmp_path / "lake").to_pyarrow_table()["destination"].to_pylist() == [name, name]
    assert [path.name for path in tmp_path.iterdir()] == ["lake"]
    assert all(path.parent.parent.parent == tmp_path / "lake" for path in parquet_files(tmp_path))


def test_strangers_read_the_table(tmp_path: Path) -> None:
    add_batch(tmp_path, 0, rows(range(10), ("orders", "alarms")))
    (tmp_path / "date=2026-11-16" / "destination=orders" / "orphan.parquet").write_bytes(b"left by a killed task")

    events = DeltaTable(tmp_path).to_pyarrow_dataset()
    with duckdb.connect() as database:
        database.register("events", events)
        query = "SELECT destination, count(*), max(position), min(data) FROM events GROUP BY 1 ORDER BY 1"
        found = database.execute(query).fetchall()

    assert events.schema.names == ["destination", "position", "accepted_at", "time", "properties", "data", "date"]
    assert found == [("alarms", 5, 9, b"1"), ("orders", 5, 8, b"0")]


def test_a_frame_of_the_table_has_its_rows_and_the_columns_of_its_partitions(tmp_path: Path) -> None:
    add_batch(tmp_path, 0, rows([]))
    assert read(tmp_path) == []
    add_batch(tmp_path, 1, rows(range(4), ("orders", "plant/7 ü%")))

    found = read(tmp_path)

    assert sorted((row["position"], row["destination"]) for row in found) == [
        (0, "orders"),
        (1, "plant/7 ü%"),
        (2, "orders"),
        (3, "plant/7 ü%"),
    ]
    assert {(row["date"], row["accepted_at"]) for row in found} == {(NOON.date(), NOON)}


def test_a_commit_says_how_many_rows_a_file_has_and_between_what_they_lie(tmp_path: Path) -> None:
    add_batch(tmp_path, 0, rows(range(5, 10)))

    (said,) = pa.table(DeltaTable(tmp_path).get_add_actions(flatten=True)).to_pylist()

    assert (said["num_records"], said["min.position"], said["max.position"]) == (5, 5, 9)
    assert said["min.accepted_at"] <= NOON <= said["max.accepted_at"]


def test_the_last_moment_that_can_be_written_is_taken_like_any_other(tmp_path: Path) -> None:
    last = datetime.max.replace(tzinfo=UTC)

    add_batch(tmp_path, 0, rows([1], time=NOON))
    add_batch(tmp_path, 1, rows([2], time=last))

    assert positions(tmp_path) == [1, 2]
    said = pa.table(DeltaTable(tmp_path).get_add_actions(flatten=True)).column("max.time").to_pylist()
    assert max(said) == last.replace(microsecond=999_000)


@pytest.mark.parametrize("order", [["often"] * 999 + ["rarely"], ["often", "rarely", "often"] + ["often"] * 997])
def test_a_row_of_a_rare_destination_does_not_keep_the_memory_of_its_whole_batch(tmp_path: Path, order: list[str]) -> None:
    lake = files.LakeFiles(str(tmp_path), ["destination"], "0")
    before = pa.total_allocated_bytes()

    for start in range(0, 60_000, 1000):
        data = pa.array([b"x" * 1000] * 1000)
        batch = rows(range(start, start + 1000), order)
        batch = batch.set_column(batch.schema.get_field_index("data"), "data", data)
        assert batch.nbytes > 1_000_000
        lake.put(batch)
        lake._write(lake._open[("often",)])
    del batch, data

    assert pa.total_allocated_bytes() - before < 5_000_000
    assert sorted((file.partition["destination"], file.rows) for file in lake.finish()) == [("often", 59_940), ("rarely", 60)]


def test_rows_of_many_destinations_in_any_order_come_into_few_files_each(tmp_path: Path) -> None:
    names = [f"d{number}" for number in range(7)]
    writer = stream_writer(tmp_path)

    writer.commit([write(writer, *(rows(range(start, start + 100), names) for start in range(0, 1000, 100)))], 0)

    assert positions(tmp_path) == list(range(1000))
    assert len(parquet_files(tmp_path)) == 7


def test_more_partitions_than_may_be_open_and_little_memory_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "OPEN_MAX", 2)
    monkeypatch.setattr(files, "GATHERED_BYTES_MAX", 10_000)
    monkeypatch.setattr(files, "GROUP_ROWS", 64)
    writer = stream_writer(tmp_path)

    writer.commit([write(writer, *(rows(range(start, start + 300), ("a", "b", "c")) for start in range(0, 900, 300)))], 0)

    assert positions(tmp_path) == list(range(900))
    assert max(pq.read_metadata(path).row_group(0).num_rows for path in parquet_files(tmp_path)) <= 64


def test_partitions_are_as_the_option_says(tmp_path: Path) -> None:
    writer = stream_writer(tmp_path, partitionBy="destination")
    writer.commit([write(writer, rows([1], accepted_at=None, time=None))], 0)

    assert DeltaTable(tmp_path).metadata().partition_columns == ["destination"]
    assert "date" not in DeltaTable(tmp_path).to_pyarrow_table().column_names


# --- on disk ------------------------------------------------------------------------------------------------------------


def test_what_a_commit_names_and_the_commit_itself_are_synced_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noting(handle: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noting)
    writer = stream_writer(tmp_path / "lake")
    message = write(writer, rows([1], ("orders",)))
    of_task = list(synced)
    writer.commit([message], 0)

    lake = tmp_path / "lake"
    (file,) = parquet_files(lake)
    assert {str(path) for path in (file, file.parent, file.parent.parent, lake, tmp_path)} <= set(of_task)
    log = lake / "_delta_log"
    assert {str(path) for path in (log / f"{0:020}.json", log / f"{1:020}.json", log)} <= set(synced)


@pytest.mark.parametrize("left", [0, 1, 120, 400])
def test_a_commit_that_a_power_cut_tore_is_set_aside_and_its_batch_is_committed_when_it_comes_again(
    tmp_path: Path, left: int
) -> None:
    for number in range(3):
        add_batch(tmp_path, number, rows(range(10 * number, 10 * number + 10)))
    os.truncate(tmp_path / "_delta_log" / f"{3:020}.json", left)

    add_batch(tmp_path, 2, rows(range(20, 30)))
    add_batch(tmp_path, 2, rows(range(20, 30)))

    assert positions(tmp_path) == list(range(30))


@pytest.mark.parametrize("left", [0, 500])
def test_a_checkpoint_of_the_log_that_a_power_cut_tore_hides_nothing(
    tmp_path: Path, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.spark.lake.table.CHECKPOINT_VERSIONS", 4)
    for number in range(5):
        add_batch(tmp_path, number, rows([number]))
    os.truncate(tmp_path / "_delta_log" / f"{4:020}.checkpoint.parquet", left)

    add_batch(tmp_path, 4, rows([4]))
    add_batch(tmp_path, 5, rows([5]))

    assert positions(tmp_path) == list(range(6))


def test_damage_that_no_power_cut_makes_is_told_and_left_alone(tmp_path: Path) -> None:
    for number in range(3):
        add_batch(tmp_path, number, rows([number]))
    (tmp_path / "_delta_log" / f"{1:020}.json").write_text("{")

    with pytest.raises(Damaged, match="_delta_log"):
        stream_writer(tmp_path)

    assert (tmp_path / "_delta_log" / f"{1:020}.json").read_text() == "{"
