"""A journal that is used again while it is copied: held back where that is possible, copied again where it is not (E8)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.backup.backup import back_up
from holdfast.backup.restore import restore
from holdfast.channel.channel import Purpose
from holdfast.channel.journal.files.backup_hold import BackupHold
from holdfast.channel.journal.journal import Journal
from holdfast.channel.journal.settings import JournalSettings
from holdfast.errors import Unavailable

KIB = 1 << 10
SETTINGS = JournalSettings(
    segment_bytes=32 * KIB, initial_bytes=256 * KIB, size_bytes=4096 * KIB, reserve_bytes=64 * KIB, upkeep_bytes=64 * KIB
)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(tmp_path / "data" / "journal", SETTINGS) as opened:
        for number in range(50):
            opened.append([bytes([number]) * (4 * KIB)])
        yield opened


class BusyOwner:
    """Uses every spare segment again whenever a backup has copied something, so often."""

    def __init__(self, journal: Journal, times: int) -> None:
        self._journal = journal
        self._times = times

    def __call__(self, what: str, size: int, done: int) -> None:
        if what == "copying" and self._times:
            self._times -= 1
            for _ in range(120):
                self._journal.append([bytes(4 * KIB)], Purpose.EVENTS)
                self._journal.release(self._journal.durable)


def restored(tmp_path: Path) -> tuple[int, int]:
    """The oldest and the newest entry of the backup, opened as a journal."""
    restore(tmp_path / "backup", tmp_path / "restored")
    with Journal.open(tmp_path / "restored" / "journal", SETTINGS) as journal:
        assert len(list(journal.read_from(journal.first))) == journal.durable + 1 - journal.first
        return journal.first, journal.durable


def test_what_is_being_copied_is_held_back_so_that_one_round_is_enough_e8(journal: Journal, tmp_path: Path) -> None:
    before = journal.durable

    report = back_up(tmp_path / "data", tmp_path / "backup", "a test", BusyOwner(journal, times=3))

    assert (report.is_held, report.rounds) == (True, 1)
    assert restored(tmp_path) == (1, before)


def test_without_a_hold_a_segment_that_was_used_again_is_noticed_and_the_image_taken_anew_e8(
    journal: Journal, tmp_path: Path
) -> None:
    before = journal.durable
    another_backup = BackupHold.take(tmp_path / "data" / "journal")
    assert another_backup is not None

    report = back_up(tmp_path / "data", tmp_path / "backup", "a test", BusyOwner(journal, times=3))

    another_backup.end()
    assert not report.is_held
    assert report.rounds > 1
    first, last = restored(tmp_path)
    assert last == journal.durable > before
    assert first > 1


@pytest.mark.slow
def test_a_journal_that_is_always_faster_is_given_up_and_leaves_no_backup_e8(journal: Journal, tmp_path: Path) -> None:
    another_backup = BackupHold.take(tmp_path / "data" / "journal")
    assert another_backup is not None

    with pytest.raises(Unavailable, match="used again faster than it could be copied"):
        back_up(tmp_path / "data", tmp_path / "backup", "a test", BusyOwner(journal, times=1_000))

    another_backup.end()
    assert not (tmp_path / "backup" / "manifest.json").exists()
