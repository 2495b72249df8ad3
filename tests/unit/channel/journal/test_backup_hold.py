"""The hold of a backup: segments are left alone while it lives, and within bounds, and never at the cost of accepting (E8)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from holdfast.channel.channel import Purpose
from holdfast.channel.journal import space
from holdfast.channel.journal.files.backup_hold import HOLD_S, BackupHold, held_segments
from holdfast.channel.journal.files.layout import HOLD_NAME
from holdfast.channel.journal.journal import Journal
from holdfast.channel.journal.settings import JournalSettings

KIB = 1 << 10
SETTINGS = JournalSettings(
    segment_bytes=32 * KIB, initial_bytes=256 * KIB, size_bytes=4096 * KIB, reserve_bytes=64 * KIB, upkeep_bytes=64 * KIB
)


def fill_segments(journal: Journal, count: int) -> list[int]:
    """Write so many segments full, releasing all that was written before; the numbers that were used."""
    used = []
    for _ in range(count):
        begun = journal.chain[-1].number if journal.chain else 0
        while not journal.chain or journal.chain[-1].number == begun:
            journal.append([bytes(4 * KIB)], Purpose.EVENTS)
        journal.release(journal.durable)
        used.append(journal.chain[-1].number)
    return used


def test_a_held_segment_is_not_used_again_while_there_are_others_e8(tmp_path: Path) -> None:
    with Journal.open(tmp_path, SETTINGS) as journal:
        first, second = fill_segments(journal, 2)
        hold = BackupHold.take(tmp_path)
        assert hold is not None
        hold.want([first, second])

        used = fill_segments(journal, 40)

        assert not {first, second} & set(used)
        hold.end()
        assert {first, second} <= set(fill_segments(journal, 40))


def test_a_backup_that_died_holds_nothing_e8(tmp_path: Path) -> None:
    (tmp_path / HOLD_NAME).write_text('{"segments": [1, 2]}\n')

    assert held_segments(tmp_path) == frozenset()


def test_a_backup_that_stands_still_holds_nothing_after_a_minute_e8(tmp_path: Path) -> None:
    hold = BackupHold.take(tmp_path)
    assert hold is not None
    hold.want([1, 2])
    assert held_segments(tmp_path) == {1, 2}

    os.utime(tmp_path / HOLD_NAME, (time.time() - HOLD_S - 1,) * 2)

    assert held_segments(tmp_path) == frozenset()
    hold.renew()
    assert held_segments(tmp_path) == {1, 2}
    hold.end()


def test_a_second_backup_has_no_hold_and_leaves_the_first_its_own_e8(tmp_path: Path) -> None:
    first = BackupHold.take(tmp_path)
    assert first is not None
    first.want([7])

    assert BackupHold.take(tmp_path) is None
    assert held_segments(tmp_path) == {7}
    first.end()
    assert not (tmp_path / HOLD_NAME).exists()


def test_a_hold_makes_the_journal_grow_by_no_more_than_it_may_hold_and_never_short_e8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space, "HOLD_BYTES_MAX", 4 * SETTINGS.segment_bytes)
    with Journal.open(tmp_path, SETTINGS) as journal:
        fill_segments(journal, 20)
        before = len(list(tmp_path.glob("segment-*.hfj")))
        hold = BackupHold.take(tmp_path)
        assert hold is not None
        hold.want(range(1, 200))  # whatever there is

        fill_segments(journal, 100)

        assert len(list(tmp_path.glob("segment-*.hfj"))) <= before + 4
        assert not journal.is_short
        hold.end()
