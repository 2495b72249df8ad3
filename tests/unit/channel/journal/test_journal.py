"""The journal on a real file system: opening, refusing, reading, snapshots, space; without an event loop."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.channel.channel import COMMAND_BYTES_MAX, Purpose
from holdfast.channel.journal.files.layout import MARK_NAME
from holdfast.channel.journal.journal import Journal
from holdfast.channel.journal.reading.inspection import show, verify
from holdfast.channel.journal.settings import JournalSettings, plan
from holdfast.errors import BadSetting, Closed, DiskFailed, JournalInUse, NoSuchPosition, NotAJournal, TooLarge

KIB = 1 << 10
SMALL = JournalSettings(
    segment_bytes=64 * KIB, initial_bytes=256 * KIB, size_bytes=2048 * KIB, reserve_bytes=64 * KIB, upkeep_bytes=64 * KIB
)


def commands(journal: Journal, start: int = 1) -> list[bytes]:
    return [bytes(entry.command) for entry in journal.read_from(start)]


# --- opening -----------------------------------------------------------------------------------------------------------


def test_a_journal_is_made_in_a_folder_that_does_not_exist_yet_and_found_there_again(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "down"
    with Journal.open(folder, SMALL) as journal:
        assert journal.append([b"one", b"two"]) == 1
        identity = journal.id

    with Journal.open(folder, SMALL) as journal:
        assert (journal.first, journal.durable, journal.id) == (1, 2, identity)
        assert commands(journal) == [b"one", b"two"]


def test_every_byte_of_a_new_journal_is_on_disk_before_the_first_event_a2(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "journal", SMALL) as journal:
        files = [path.stat() for path in journal.folder.glob("segment-*.hfj")]

        assert sum(file.st_size for file in files) >= SMALL.initial_bytes
        assert all(file.st_blocks * 512 >= file.st_size for file in files)


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear …")

    with pytest.raises(NotAJournal, match=r"letter\.txt"):
        Journal.open(tmp_path, SMALL)

    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_journal_has_one_owner_and_the_second_is_told_who_it_is(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "journal", SMALL), pytest.raises(JournalInUse, match=str(os.getpid())) as refused:
        Journal.open(tmp_path / "journal", SMALL)

    assert refused.value.fields == {"holder": os.getpid()}
    Journal.open(tmp_path / "journal", SMALL).close()


def test_what_a_killed_process_had_appended_is_there_a2(tmp_path: Path) -> None:
    program = (
        "import os, sys; from holdfast.channel.journal.journal import Journal\n"
        "from tests.unit.channel.journal.test_journal import SMALL\n"
        "journal = Journal.open(sys.argv[1], SMALL)\n"
        "journal.append([b'before the end'])\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "journal")], check=False, cwd=Path(__file__).parents[4])

    with Journal.open(tmp_path / "journal", SMALL) as journal:
        assert commands(journal) == [b"before the end"]


def test_a_folder_that_cannot_be_made_is_a_disk_that_failed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(DiskFailed, match="cannot be opened"):
        Journal.open(tmp_path / "file" / "journal", SMALL)


def test_an_existing_journal_keeps_the_size_of_its_segments(tmp_path: Path) -> None:
    Journal.open(tmp_path / "journal", SMALL).close()

    with Journal.open(tmp_path / "journal", JournalSettings(size_bytes=4096 * KIB, reserve_bytes=0, upkeep_bytes=0)) as journal:
        assert journal.plan.segment_bytes == 64 * KIB


@pytest.mark.parametrize(
    "settings",
    [
        JournalSettings(segment_bytes=4096),
        JournalSettings(segment_bytes=(8 << 20) + 1),
        JournalSettings(size_bytes=16 << 20),
        JournalSettings(reserve_bytes=-1),
    ],
    ids=lambda settings: str(settings)[:60],
)
def test_settings_that_cannot_be_are_refused(settings: JournalSettings) -> None:
    with pytest.raises(BadSetting):
        plan(settings)


def test_after_close_everything_is_closed(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "journal", SMALL)
    journal.close()
    journal.close()

    for call in (
        lambda: journal.append([b"x"]),
        lambda: journal.read_from(1),
        lambda: journal.fetch([1]),
        lambda: journal.release(1),
        lambda: journal.save_snapshot(0, []),
        journal.load_snapshot,
    ):
        with pytest.raises(Closed):
            call()


# --- appending and reading ---------------------------------------------------------------------------------------------


def test_commands_of_every_size_come_back_as_they_were_from_memory_and_from_disk(tmp_path: Path) -> None:
    written = [os.urandom(size) for size in (0, 1, 7, 8, 9, 1000, 30_000, 60_000, 64 * KIB - 600)]
    with Journal.open(tmp_path / "journal", SMALL) as journal:
        journal.append(written)
        assert commands(journal) == written

    with Journal.open(tmp_path / "journal", SMALL) as journal:
        assert commands(journal) == written
        assert [bytes(command) for command in journal.fetch([9, 1, 5])] == [written[8], written[0], written[4]]


def test_the_largest_command_of_all_fits_a_segment_of_the_usual_size_and_one_byte_more_is_refused() -> None:
    assert plan(JournalSettings()).command_bytes_max == COMMAND_BYTES_MAX


def test_a_command_too_large_for_a_segment_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "journal", SMALL) as journal:
        with pytest.raises(TooLarge, match="split it"):
            journal.append([b"fits", bytes(64 * KIB)])

        assert journal.durable == 0


def test_entries_that_are_not_held_are_refused(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "journal", SMALL) as journal:
        for _ in range(20):
            journal.append([bytes(20_000)])
        journal.release(15)
        assert 1 < journal.first <= 15

        for number in (0, journal.first - 1, journal.durable + 1):
            with pytest.raises(NoSuchPosition):
                journal.fetch([number])
        with pytest.raises(NoSuchPosition):
            journal.read_from(journal.first - 1)
        with pytest.raises(NoSuchPosition):
            journal.release(journal.durable + 2)
        assert list(journal.read_from(journal.durable + 1)) == []


def test_jumping_about_in_a_journal_that_was_opened_again_finds_every_entry(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "journal", SMALL) as journal:
        journal.append([b"%06d" % number * 20 for number in range(1, 5001)])

    with Journal.open(tmp_path / "journal", SMALL) as journal:
        for number in (4999, 1, 2500, 2499, 5000, 3, 4000):
            assert bytes(journal.fetch([number])[0]) == b"%06d" % number * 20


# --- space -------------------------------------------------------------------------------------------------------------


def test_a_soak_of_fifty_times_its_size_goes_through_a_small_journal_a3(tmp_path: Path) -> None:
    command = os.urandom(30_000)
    with Journal.open(tmp_path / "journal", SMALL) as journal:
        written = 0
        while written < 50 * SMALL.size_bytes:
            journal.append([command] * 10)
            written += 10 * len(command)
            journal.release(journal.durable - 3)

        assert journal.durable * len(command) >= 50 * SMALL.size_bytes
        assert commands(journal, journal.durable - 3) == [command] * 4
        assert not journal.pressure.is_short
    size = sum(path.stat().st_size for path in (tmp_path / "journal").glob("segment-*"))
    assert size <= SMALL.size_bytes
    assert verify(tmp_path / "journal").state == "whole"


# --- looking from outside ----------------------------------------------------------------------------------------------


def test_verify_and_show_say_what_is_there_without_owning_it(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "journal", SMALL) as journal:
        journal.append([bytes(30_000)] * 5, Purpose.EVENTS)
        journal.save_snapshot(3, [b"state"])
        report, shown = verify(journal.folder), show(journal.folder)

    assert (report.state, report.first, report.durable, report.entries, report.snapshot_at) == ("whole", 1, 5, 5, 3)
    assert [segment.entries for segment in shown.segments if segment.state in ("in use", "tail")] == [2, 2, 1]
    assert shown.spare_bytes == 64 * KIB * sum(segment.state == "spare" for segment in shown.segments)


def test_verify_names_a_torn_tail_and_opening_repairs_it_a11(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "journal", SMALL) as journal:
        journal.append([b"whole"])
        journal.append([b"torn"])
        tail, end = journal.folder / journal.chain[-1].name, journal.chain[-1].end
    (tmp_path / "journal" / MARK_NAME).unlink()  # as if the power had gone before it reached the disk
    with tail.open("r+b") as file:
        file.seek(end - 8)
        file.write(b"\xff" * 4)

    report = verify(tmp_path / "journal")

    assert (report.state, report.file, report.durable) == ("torn tail", tail.name, 1)
    with Journal.open(tmp_path / "journal", SMALL) as journal:
        assert commands(journal) == [b"whole"]
        assert journal.append([b"again"]) == 2
    assert verify(tmp_path / "journal").state == "whole"


@pytest.mark.parametrize("what", ["missing", "empty", "foreign", "file"])
def test_what_is_no_journal_is_called_that(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "folder"
    if what == "file":
        folder.write_bytes(b"")
    elif what != "missing":
        folder.mkdir()
    if what == "foreign":
        (folder / "letter.txt").write_text("dear …")

    assert verify(folder).state == "not a journal"
    with pytest.raises(NotAJournal):
        show(folder)
