"""The table of places in a file (ADR 22)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cluster.places import PlaceTable
from holdfast.errors import DiskFailed
from holdfast.node import places_file

MANAGERS = ("m1", "m2")


def placed(table: PlaceTable, *names: str) -> list[str]:
    told: list[str] = []
    for name in names:
        table.reserve(name, told.append)
    return told


def test_places_are_the_same_when_the_file_is_opened_again(tmp_path: Path) -> None:
    file = tmp_path / places_file.FILE
    made = placed(places_file.open_table(MANAGERS, [], file), "a", "b", "c")

    again = places_file.open_table(MANAGERS, [("**", "m1")], file)
    assert [again.find(name) for name in "abc"] == made == ["m1", "m2", "m1"]


@pytest.mark.parametrize("cut", range(1, 11))
def test_a_line_that_a_crash_cut_off_never_counted_and_the_next_one_is_whole(tmp_path: Path, cut: int) -> None:
    file = tmp_path / places_file.FILE
    placed(places_file.open_table(MANAGERS, [], file), "a", "b")
    file.write_bytes(file.read_bytes()[:-cut])

    table = places_file.open_table(MANAGERS, [], file)
    assert [table.find(name) for name in "ab"] == ["m1", None]
    placed(table, "c")
    assert places_file.open_table(MANAGERS, [], file).find("c") == "m2"


def test_a_place_that_cannot_be_written_is_none(tmp_path: Path) -> None:
    table = places_file.open_table(MANAGERS, [], tmp_path / "missing" / places_file.FILE)
    with pytest.raises(DiskFailed, match="the place of 'a' cannot be written"):
        placed(table, "a")
    assert table.find("a") is None


def test_a_table_that_was_lost_is_made_again_from_what_is_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = places_file.open_table(MANAGERS, [])
    places_file.reconcile(table, "m2", ["a", "_LOG", "_temporary.m2/7"])
    assert placed(table, "a") == ["m2"] and table.at("m2") == ["a"]

    places_file.reconcile(table, "m1", ["a"])
    assert "'a' is at message manager m1, and its place is at m2" in caplog.text


def test_what_a_full_disk_took_of_a_line_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / places_file.FILE
    placed(places_file.open_table(MANAGERS, [], file), "a")
    script = (
        "import resource, signal, sys\nfrom pathlib import Path\nfrom holdfast.node import places_file\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({file.stat().st_size + 5}, -1))\n"
        f"table = places_file.open_table({MANAGERS!r}, [], Path({str(file)!r}))\n"
        "try:\n    table.reserve('b', print)\nexcept places_file.DiskFailed:\n    sys.exit(7)\n"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 7

    placed(places_file.open_table(MANAGERS, [], file), "c")
    again = places_file.open_table(MANAGERS, [], file)
    assert again.find("a") and again.find("b") is None and again.find("c")
