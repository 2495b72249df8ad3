"""A really full file system, limits of the process, no `fallocate`: the reserve is taken, and nothing is lost (A2)."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.channel.channel import Purpose
from holdfast.channel.journal.journal import Journal
from holdfast.channel.journal.reading.inspection import verify
from holdfast.channel.journal.settings import JournalSettings
from holdfast.errors import Blocked, DiskFailed

KIB = 1 << 10
MIB = 1 << 20
SETTINGS = JournalSettings(
    segment_bytes=256 * KIB, initial_bytes=0, size_bytes=64 * MIB, reserve_bytes=1 * MIB, upkeep_bytes=1 * MIB
)
EVENT = bytes(range(250)) * 40


@pytest.fixture
def small_file_system(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "mounted"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.decode()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


def fill(folder: Path) -> Path:
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
    return filler


def append_until_blocked(journal: Journal, purpose: Purpose) -> int:
    taken = 0
    try:
        while True:
            journal.append([EVENT], purpose)
            taken += len(EVENT)
    except Blocked:
        return taken


@pytest.mark.faults
def test_on_a_full_file_system_both_reserves_are_taken_and_all_goes_on_when_space_returns(small_file_system: Path) -> None:
    now = [0.0]
    journal = Journal.open(small_file_system / "journal", SETTINGS, clock=lambda: now[0])
    filler = fill(small_file_system)

    taken = append_until_blocked(journal, Purpose.EVENTS)
    upkeep = append_until_blocked(journal, Purpose.UPKEEP)
    assert taken >= SETTINGS.reserve_bytes
    assert upkeep >= SETTINGS.upkeep_bytes
    assert "No space left" in journal.pressure.reason

    filler.unlink()
    now[0] += 1000
    while journal.wants_growth:
        assert journal.grow()
    journal.append([EVENT])
    assert not journal.pressure.is_short
    journal.close()
    with Journal.open(small_file_system / "journal", SETTINGS) as again:
        assert all(bytes(entry.command) == EVENT for entry in again.read_from(1))
        assert again.durable == (taken + upkeep) // len(EVENT) + 1


@pytest.mark.faults
def test_a_journal_opens_and_recovers_on_a_full_file_system_and_release_frees_it(small_file_system: Path) -> None:
    journal = Journal.open(small_file_system / "journal", SETTINGS)
    fill(small_file_system)
    append_until_blocked(journal, Purpose.EVENTS)
    durable = journal.durable
    journal.close()

    with Journal.open(small_file_system / "journal", SETTINGS) as again:
        assert again.durable == durable
        again.release(durable)
        assert again.append([EVENT]) == durable + 1


@pytest.mark.faults
def test_there_is_no_journal_where_it_does_not_fit(small_file_system: Path) -> None:
    fill(small_file_system)

    with pytest.raises(DiskFailed, match="No space left"):
        Journal.open(small_file_system / "journal", SETTINGS)


def test_where_fallocate_is_not_supported_zeros_are_written_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "posix_fallocate", unsupported)

    with Journal.open(tmp_path / "journal", SETTINGS) as journal:
        files = [path.stat() for path in journal.folder.glob("segment-*.hfj")]
        assert all(file.st_blocks * 512 >= file.st_size for file in files)
        assert journal.append([EVENT]) == 1


LIMITED = """
import resource, sys
from holdfast.channel.journal.journal import Journal
from holdfast.errors import HoldfastError
from tests.faults.test_journal_real_disk_full import EVENT, SETTINGS

journal = Journal.open(sys.argv[1], SETTINGS)
limit = getattr(resource, sys.argv[2])
resource.setrlimit(limit, (int(sys.argv[3]), resource.getrlimit(limit)[1]))
try:
    while journal.durable < 2000:
        journal.append([EVENT])
except HoldfastError as problem:
    print(journal.durable, problem.code)
else:
    print(journal.durable, "never refused")
"""


@pytest.mark.faults
@pytest.mark.parametrize(("limit", "value"), [("RLIMIT_FSIZE", 100 * KIB), ("RLIMIT_FSIZE", 4 * KIB), ("RLIMIT_NOFILE", 0)])
def test_under_a_limit_of_the_process_what_was_accepted_is_there_and_the_rest_is_refused(
    tmp_path: Path, limit: str, value: int
) -> None:
    program = [sys.executable, "-c", LIMITED, str(tmp_path / "journal"), limit, str(value)]
    said = subprocess.run(program, capture_output=True, check=True, text=True, cwd=Path(__file__).parents[2]).stdout.split()

    with Journal.open(tmp_path / "journal", SETTINGS) as journal:
        assert journal.durable >= int(said[0])
        assert all(bytes(entry.command) == EVENT for entry in journal.read_from(1))
    assert said[1] in ("blocked", "disk-failed", "outcome-unknown")
    assert verify(tmp_path / "journal").state == "whole"
