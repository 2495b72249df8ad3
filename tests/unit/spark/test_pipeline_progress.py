"""How a pipeline says how it goes (D6), how a replay is cut into chunks, and what is written down beside a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.spark.pipelines.replay_chunks import Plan, TableFile, chunk_starts
from holdfast.spark.pipelines.running.notes import notes_in
from holdfast.spark.pipelines.running.progress import Reporter, progress_of

SAID: dict[str, Any] = {
    "batchId": 7,
    "timestamp": "2026-11-16T12:00:00.000Z",
    "batchDuration": 2_500,
    "processedRowsPerSecond": 400.5,
    "stateOperators": [{"numRowsDroppedByWatermark": 3}],
    "sources": [
        {
            "numInputRows": 1_000,
            "startOffset": '{"orders": ["x:1", 65536], "alerts.*": ["x:2", 10, [4, 7]]}',
            "latestOffset": {"orders": ["x:1", 131072, 20], "alerts.*": ["x:2", 40, 5]},
        }
    ],
}


def test_the_numbers_of_spark_become_rows_lag_and_how_far_it_is_confirmed() -> None:
    """D6: the lag is what is not confirmed, over all destinations."""
    progress = progress_of(SAID)

    assert (progress.batch, progress.rows, progress.rows_per_second, progress.seconds) == (7, 1_000, 400.5, 2.5)
    assert (progress.lag, progress.late, progress.confirmed) == (25, 3, {"orders": 65_536, "alerts.*": 10})


def test_a_query_that_has_not_read_anything_yet_has_a_progress_too() -> None:
    progress = progress_of({"batchId": 0, "timestamp": "t", "sources": [{"startOffset": None, "latestOffset": None}]})

    assert (progress.rows, progress.lag, progress.confirmed) == (0, None, {})


def test_a_program_gets_a_line_for_each_batch_and_one_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter("archive", as_json=True) as reporter:
        reporter.tell(progress_of(SAID))
        reporter.tell(progress_of({**SAID, "batchId": 8}))
        reporter.finish("took all there was")

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line.get("batch"), line["total_rows"], line["total_late"]) for line in lines] == [
        (7, 1_000, 3),
        (8, 2_000, 6),
        (None, 2_000, 6),
    ]
    assert all(line["pipeline"] == "archive" for line in lines)


def test_a_person_gets_lag_rate_and_what_is_confirmed_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter("archive") as reporter:
        reporter.tell(progress_of(SAID))
        reporter.finish("stopped when told to")

    out, err = capsys.readouterr()
    assert out == ""
    for said in ("rows 1,000", "rows/s 400", "lag 25", "confirmed up to orders 65536", "3 came too late", "stopped when told to"):
        assert said in err


def test_rows_that_are_the_result_are_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter("statistics")

    reporter.show_rows([{"type": "b", "events": 2_000}, {"type": "a", "events": 1}], ["type"])

    out = capsys.readouterr().out
    assert out.index(" a ") < out.index(" b ")
    assert "2,000" in out


def file(first: int, last: int, events: int, path: str = "f") -> TableFile:
    return TableFile(path, "orders", first, last, events)


@pytest.mark.parametrize(
    ("files", "starts"),
    [
        ([], []),
        ([file(0, 999, 50)], [0]),
        ([file(0, 999, 1_000)], [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]),
        ([file(0, 99, 50), file(100, 299, 200), file(300, 300, 1)], [0, 150, 250]),
        ([file(0, 99, 100), file(0, 99, 100)], [0, 50]),
        ([file(5, 5, 1_000)], [5]),
    ],
)
def test_chunks_have_about_as_many_events_as_was_asked_for(files: list[TableFile], starts: list[int]) -> None:
    assert chunk_starts(files, 100) == starts


def test_the_chunks_of_a_plan_have_every_position_of_every_file_once() -> None:
    files = [file(0, 700, 300, "a"), file(350, 900, 100, "b"), file(5_000, 5_100, 101, "c")]
    plan = Plan("scope", {}, files, chunk_starts(files, 64))

    for each in files:
        for position in (each.first, each.last, (each.first + each.last) // 2):
            holding = [n for n in range(len(plan.starts)) if each in plan.files_of(n) and _is_in(plan.chunk(n), position)]
            assert len(holding) == 1


def _is_in(chunk: tuple[int, int | None], position: int) -> bool:
    start, end = chunk
    return start <= position and (end is None or position < end)


@pytest.mark.parametrize("url", ["{}", "file://{}"])
def test_a_note_is_read_as_it_was_written_and_replaced_as_a_whole(tmp_path: Path, url: str) -> None:
    notes = notes_in(url.format(tmp_path), "part")

    assert (notes.names(), notes.read("a")) == ([], None)
    notes.write("a", {"x": 1})
    notes.write("b", [1])
    notes.write("a", {"x": 2})
    notes.remove("b")

    assert (notes.names(), notes.read("a")) == (["a"], {"x": 2})
    assert notes_in(str(tmp_path), "part").read("a") == {"x": 2}
