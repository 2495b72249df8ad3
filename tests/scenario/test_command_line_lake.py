"""`holdfast lake`: a table is looked at, compacted, shortened and cleared from the command line (D4, E4)."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.scenario.command_line import Holdfast, holdfast, server
from tests.spark.lake_rows import add_batch, parquet_files, positions, rows

__all__ = ["holdfast", "server"]

WEEK_S = 7 * 24 * 3600


def test_a_table_is_shown_compacted_and_vacuumed_and_keeps_its_rows(holdfast: Holdfast, tmp_path: Path) -> None:
    table = tmp_path / "events"
    for number in range(4):
        add_batch(table, number, rows(range(10 * number, 10 * number + 10)))

    (shown,) = holdfast("lake", "show", str(table), "--json").json()
    compacted = holdfast("lake", "compact", str(table))
    kept = holdfast("lake", "vacuum", str(table))
    left_by_a_killed_task = parquet_files(table)[0].parent / "part-nobody.parquet"
    left_by_a_killed_task.write_bytes(b"half")
    os.utime(left_by_a_killed_task, (time.time() - 2 * WEEK_S,) * 2)
    vacuumed = holdfast("lake", "vacuum", str(table), "--json")

    assert (shown["rows"], shown["files"], shown["partitioned_by"]) == (40, 4, ["date", "destination"])
    assert compacted.out.startswith("4 files before, 1 now")
    assert kept.out == "0 files deleted\n"
    assert vacuumed.json() == [{"files": 1}]
    assert positions(table) == list(range(40))


def test_days_that_are_past_are_taken_out(holdfast: Holdfast, tmp_path: Path) -> None:
    add_batch(tmp_path, 0, rows(range(5)))

    done = holdfast("lake", "retain", str(tmp_path), "--days", "36500", "--json")

    assert done.json()[0]["files"] == 0
    assert positions(tmp_path) == list(range(5))


def test_what_cannot_be_meant_is_refused_with_a_sentence(holdfast: Holdfast, tmp_path: Path) -> None:
    nothing = holdfast("lake", "show", str(tmp_path / "nowhere"))
    days = holdfast("lake", "retain", str(tmp_path), "--days", "0")
    size = holdfast("lake", "compact", str(tmp_path), "--file-size", "ten")

    assert (nothing.code, days.code, size.code) == (1, 1, 1)
    assert "is not a Delta table" in nothing.err
    assert "keep at least 1" in days.err
    assert "--file-size" in size.err
