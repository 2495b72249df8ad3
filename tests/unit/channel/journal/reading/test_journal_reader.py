"""Reading a journal that another owns: up to the durable mark, never past it (rule 2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.channel.journal.files.layout import MARK_NAME
from holdfast.channel.journal.journal import Journal
from holdfast.channel.journal.reading.journal_reader import JournalReader
from holdfast.channel.journal.settings import JournalSettings
from holdfast.errors import JournalDamaged, NoSuchPosition, NotAJournal
from holdfast.simulation.simulated_disk import PowerCut, SimulatedDisk

FOLDER = Path("/journal")
SMALL = JournalSettings(segment_bytes=8192, initial_bytes=0, size_bytes=20 * 8192, reserve_bytes=4000, upkeep_bytes=4000)


def commands(reader: JournalReader, start: int = 1) -> list[bytes]:
    return [bytes(entry.command) for entry in reader.read_from(start)]


def test_a_reader_follows_a_journal_that_another_owns(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "journal", SMALL) as journal:
        journal.append([b"one"])
        with JournalReader(tmp_path / "journal") as reader:
            assert commands(reader) == [b"one"]

            journal.append([b"two", bytes(7000), bytes(7000)])

            assert commands(reader) == [b"one"], "nothing moves under a reader that did not ask"
            assert reader.refresh() == 4
            assert commands(reader, 2) == [b"two", bytes(7000), bytes(7000)]


def test_what_is_written_and_not_synced_is_not_seen_rule_2() -> None:
    disk = SimulatedDisk()
    journal = Journal.open(FOLDER, SMALL, disk=disk)
    journal.append([b"durable"])
    disk.cut_at = disk.calls + 1  # the write is done, the sync is not
    with pytest.raises(PowerCut):
        journal.append([b"only written"])
    disk.cut_at = None

    reader = JournalReader(FOLDER, disk=disk)

    assert reader.durable == 1
    assert commands(reader) == [b"durable"]


def test_without_a_mark_everything_but_the_last_group_is_known_to_be_durable() -> None:
    disk = SimulatedDisk()
    with Journal.open(FOLDER, SMALL, disk=disk) as journal:
        journal.append([b"one", b"two"])
        journal.append([b"three"])
        journal.append([b"the last", b"group"])
    disk.unlink(FOLDER / MARK_NAME)

    assert commands(JournalReader(FOLDER, disk=disk)) == [b"one", b"two", b"three"]


def test_an_entry_that_was_released_while_it_was_read_is_gone_by_order_not_damaged() -> None:
    disk = SimulatedDisk()
    journal = Journal.open(FOLDER, SMALL, disk=disk)
    journal.append([bytes([number]) * 3000 for number in range(1, 9)])
    reader = JournalReader(FOLDER, disk=disk)
    entries = reader.read_from(1)
    next(entries)

    for _ in range(40):
        journal.append([bytes(3000)])
        journal.release(journal.durable)

    with pytest.raises(NoSuchPosition):
        list(entries)
    assert commands(reader, reader.first)[-1] == bytes(3000)


def test_damage_is_damage_for_a_reader_too() -> None:
    disk = SimulatedDisk()
    with Journal.open(FOLDER, SMALL, disk=disk) as journal:
        journal.append([b"one"])
        journal.append([b"two"])
        disk.content(FOLDER / journal.chain[0].name)[512 + 24] ^= 1

    with pytest.raises(JournalDamaged):
        commands(JournalReader(FOLDER, disk=disk))


def test_a_folder_without_a_journal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAJournal):
        JournalReader(tmp_path)


def test_a_reader_finds_the_newest_whole_snapshot_that_is_durable_also_behind_released_segments() -> None:
    disk = SimulatedDisk()
    journal = Journal.open(FOLDER, SMALL, disk=disk)
    reader = JournalReader(FOLDER, disk=disk)
    assert reader.load_snapshot() is None

    for number in range(30):
        journal.append([bytes(3000)])
        journal.save_snapshot(journal.durable, [b"state", b"of %d" % number])
        journal.append([bytes(3000)] * 2)
        journal.release(journal.durable)
        reader.refresh()

        snapshot = reader.load_snapshot()

        assert snapshot == journal.load_snapshot()
        assert snapshot is not None
        assert [bytes(chunk) for chunk in snapshot.chunks] == [b"state", b"of %d" % number]


def test_a_snapshot_whose_segments_were_begun_anew_meanwhile_is_not_damage_but_followed_by_a_newer_one() -> None:
    disk = SimulatedDisk()
    journal = Journal.open(FOLDER, SMALL, disk=disk)
    journal.append([b"one"])
    journal.save_snapshot(1, [b"old"])
    reader = JournalReader(FOLDER, disk=disk)

    for _ in range(40):
        journal.append([bytes(3000)])
        journal.save_snapshot(journal.durable, [b"new"])
        journal.release(journal.durable)

    with pytest.raises(NoSuchPosition):
        reader.fetch([1])
    snapshot = reader.load_snapshot()
    assert snapshot is not None
    assert (snapshot.at, [bytes(chunk) for chunk in snapshot.chunks]) == (journal.durable, [b"new"])


def test_a_reader_fetches_single_entries_and_says_what_is_released() -> None:
    disk = SimulatedDisk()
    journal = Journal.open(FOLDER, SMALL, disk=disk)
    journal.append([b"one", b"two", b"three"])
    reader = JournalReader(FOLDER, disk=disk)

    assert [bytes(command) for command in reader.fetch([3, 1])] == [b"three", b"one"]
    assert reader.id == journal.id.hex()
    with pytest.raises(NoSuchPosition):
        reader.fetch([4])
