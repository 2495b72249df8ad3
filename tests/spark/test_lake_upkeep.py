"""D4: a lake table is compacted, shortened and cleared without losing a row that should stay, while queries write to it."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from holdfast.errors import BadSetting, Damaged, Unavailable
from holdfast.spark.lake.table import Lake
from holdfast.spark.lake.upkeep import Compacted, compact, retain, vacuum
from tests.spark.lake_rows import NOON, QUERY, add_batch, days_ago, parquet_files, positions, rows, stream_writer, write

HOUR_S = 3600


def make_older(path: Path, hours: float) -> None:
    then = time.time() - hours * HOUR_S
    os.utime(path, (then, then))


def test_compacting_makes_few_files_of_many_and_keeps_every_row(tmp_path: Path) -> None:
    for number in range(6):
        add_batch(tmp_path, number, rows(range(10 * number, 10 * number + 10), ("orders", "plant/7")))

    done = compact(str(tmp_path))

    assert done == Compacted(files_before=12, files_after=2)
    assert positions(tmp_path) == list(range(60))
    assert len(DeltaTable(tmp_path).file_uris()) == 2
    assert compact(str(tmp_path)) == Compacted(2, 2)


def test_a_compacted_table_still_knows_which_batches_it_has(tmp_path: Path) -> None:
    for number in range(3):
        add_batch(tmp_path, number, rows([number]))

    compact(str(tmp_path))
    add_batch(tmp_path, 2, rows([2]))
    add_batch(tmp_path, 3, rows([3]))

    assert positions(tmp_path) == [0, 1, 2, 3]
    assert DeltaTable(tmp_path).transaction_version(QUERY) == 3


def test_compacting_changes_nothing_for_whoever_follows_the_table(tmp_path: Path) -> None:
    add_batch(tmp_path, 0, rows([0]))
    add_batch(tmp_path, 1, rows([1]))

    compact(str(tmp_path))

    said = (tmp_path / "_delta_log" / f"{3:020}.json").read_text()
    assert said.count('"dataChange":false') == 3
    assert '"dataChange":true' not in said


def test_a_batch_that_is_committed_while_the_table_is_compacted_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_batch(tmp_path, 0, rows([0]))
    add_batch(tmp_path, 1, rows([1]))
    replace = Lake.replace

    def late(self: Lake, *files: object) -> None:
        add_batch(tmp_path, 2, rows([2]))
        replace(self, *files)  # type: ignore[arg-type]

    monkeypatch.setattr(Lake, "replace", late)
    compact(str(tmp_path))

    assert positions(tmp_path) == [0, 1, 2]


def test_compacting_what_was_taken_out_meanwhile_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_batch(tmp_path, 0, rows([0], accepted_at=days_ago(9)))
    add_batch(tmp_path, 1, rows([1], accepted_at=days_ago(9)))
    replace = Lake.replace

    def late(self: Lake, *files: object) -> None:
        monkeypatch.setattr(Lake, "replace", replace)
        retain(str(tmp_path), 3, now=NOON)
        replace(self, *files)  # type: ignore[arg-type]

    monkeypatch.setattr(Lake, "replace", late)
    with pytest.raises(Unavailable, match="changed meanwhile"):
        compact(str(tmp_path))

    assert positions(tmp_path) == []


def test_retaining_takes_whole_days_out_and_counts_today_as_one(tmp_path: Path) -> None:
    for days in range(5):
        add_batch(tmp_path, days, rows([days], ("orders",), accepted_at=days_ago(days)))

    done = retain(str(tmp_path), 3, now=NOON)

    assert (done.first_day, done.files) == ("2026-11-14", 2)
    assert positions(tmp_path) == [0, 1, 2]
    assert len(parquet_files(tmp_path)) == 5
    assert retain(str(tmp_path), 3, now=NOON).files == 0


def test_vacuuming_deletes_old_orphans_and_leaves_what_a_task_may_be_writing(tmp_path: Path) -> None:
    add_batch(tmp_path, 0, rows([0], ("plant/7",)))
    (kept,) = parquet_files(tmp_path)
    make_older(kept, 1000)
    writer = stream_writer(tmp_path)
    write(writer, rows([1], ("plant/7",)))
    (old,) = set(parquet_files(tmp_path)) - {kept}
    make_older(old, 3)
    message = write(writer, rows([2], ("plant/7",)))

    assert vacuum(str(tmp_path), timedelta(hours=2)).files == 1
    writer.commit([message], 1)

    assert not old.exists()
    assert positions(tmp_path) == [0, 2]


def test_vacuuming_deletes_what_was_taken_out_long_ago_and_not_what_was_taken_out_just_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        add_batch(tmp_path, number, rows([number], ("plant/7",)))
    for path in parquet_files(tmp_path):
        make_older(path, 1000)
    three_hours_ago = time.time_ns() - 3 * HOUR_S * 10**9
    with monkeypatch.context() as then:
        then.setattr(time, "time_ns", lambda: three_hours_ago)
        compact(str(tmp_path))
    add_batch(tmp_path, 2, rows([2], ("plant/7",)))
    compact(str(tmp_path))

    done = vacuum(str(tmp_path), timedelta(hours=2))

    assert done.files == 2  # the first two; not those of the second compaction, a moment ago
    assert len(parquet_files(tmp_path)) == 3
    assert positions(tmp_path) == [0, 1, 2]


def test_vacuuming_deletes_nothing_while_a_file_of_the_table_is_not_whole(tmp_path: Path) -> None:
    add_batch(tmp_path, 0, rows([0]))
    (file,) = parquet_files(tmp_path)
    os.truncate(file, 0)
    orphan = file.with_name("part-old.parquet")
    orphan.write_bytes(b"x")
    make_older(orphan, 1000)

    with pytest.raises(Damaged, match="nothing was deleted"):
        vacuum(str(tmp_path))

    assert orphan.exists()


def test_upkeep_that_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="is not a Delta table"):
        compact(str(tmp_path))
    with pytest.raises(BadSetting, match="too small"):
        compact(str(tmp_path), file_bytes=10)
    with pytest.raises(BadSetting, match="at least 1"):
        retain(str(tmp_path), 0)
    with pytest.raises(BadSetting, match="at least 1:00:00"):
        vacuum(str(tmp_path), timedelta(minutes=1))


def test_a_table_without_days_cannot_be_shortened_by_days(tmp_path: Path) -> None:
    writer = stream_writer(tmp_path, partitionBy="destination")
    writer.commit([write(writer, rows([1]))], 0)

    with pytest.raises(BadSetting, match="not partitioned by 'date'"):
        retain(str(tmp_path), 3)
