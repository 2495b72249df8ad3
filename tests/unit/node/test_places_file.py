"""The table of places in a file (ADR 22)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cluster.places import PlaceTable
from holdfast.errors import DiskFailed, HoldfastError
from holdfast.node import places_file

MANAGERS = ("m1", "m2")


def never(problem: HoldfastError) -> None:
    raise problem


def placed(table: PlaceTable, *names: str) -> list[str]:
    told: list[str] = []
    for name in names:
        table.reserve(name, told.append, never)
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
    script = f"""
import resource, signal
from pathlib import Path
from holdfast.node import places_file

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
table = places_file.open_table({MANAGERS!r}, [], Path({str(file)!r}))
resource.setrlimit(resource.RLIMIT_FSIZE, ({file.stat().st_size + 5}, -1))
try:
    table.reserve("b", print, print)
except places_file.DiskFailed as problem:
    print("refused")
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
table.reserve("c", print, print)
"""

    said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()

    again = places_file.open_table(MANAGERS, [], file)
    assert said == ["refused", again.find("c")]
    assert again.find("a") and again.find("b") is None
