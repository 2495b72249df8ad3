"""Reserves (A2): what is stated is accepted when no space can be had, upkeep has its own, and all goes on when space returns."""

from __future__ import annotations

import errno
import itertools
from pathlib import Path

import msgspec
import pytest

from holdfast.channel.channel import Purpose
from holdfast.channel.journal.journal import Journal
from holdfast.channel.journal.settings import JournalSettings
from holdfast.errors import Blocked, DiskFailed, OutcomeUnknown
from holdfast.simulation.simulated_disk import Call, SimulatedDisk

FOLDER = Path("/journal")
KIB = 1 << 10
SETTINGS = JournalSettings(
    segment_bytes=32 * KIB, initial_bytes=0, size_bytes=1024 * KIB, reserve_bytes=100 * KIB, upkeep_bytes=80 * KIB
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def opened(disk: SimulatedDisk, clock: Clock | None = None, settings: JournalSettings = SETTINGS) -> Journal:
    return Journal.open(FOLDER, settings, disk=disk, clock=clock or Clock())


def fill(journal: Journal, purpose: Purpose, size: int) -> tuple[int, Blocked]:
    """Append until it is blocked; bytes of commands that were taken, and the refusal."""
    for count in itertools.count():
        try:
            journal.append([bytes(size)], purpose)
        except Blocked as blocked:
            return count * size, blocked
    raise AssertionError


@pytest.mark.parametrize("size", [256, 1000, 7000, 15_900, 16_300, 31_000])
def test_the_stated_reserve_of_events_is_taken_whatever_their_size_and_the_disk_is_full_a2(size: int) -> None:
    disk = SimulatedDisk()
    journal = opened(disk)
    disk.size_bytes = 0

    while not journal.is_short:
        journal.append([bytes(size)])
    taken, blocked = fill(journal, Purpose.EVENTS, size)

    assert taken >= SETTINGS.reserve_bytes
    assert "what was accepted is safe" in blocked.sentence
    assert "ENOSPC" in blocked.sentence


@pytest.mark.parametrize("size", [256, 7000, 16_300])
def test_upkeep_has_its_stated_room_when_events_have_used_theirs_a2(size: int) -> None:
    disk = SimulatedDisk()
    journal = opened(disk)
    disk.size_bytes = 0
    fill(journal, Purpose.EVENTS, size)

    taken, blocked = fill(journal, Purpose.UPKEEP, size)

    assert taken >= SETTINGS.upkeep_bytes
    assert "upkeep" in blocked.sentence


def test_upkeep_that_goes_on_beside_events_does_not_take_their_reserve() -> None:
    """A confirmation of 300 bytes after each event of 2 KiB."""
    disk = SimulatedDisk()
    journal = opened(disk)
    disk.size_bytes = 0
    while not journal.is_short:
        journal.append([bytes(2048)])

    taken = 0
    with pytest.raises(Blocked):
        while True:
            journal.append([bytes(2048)])
            taken += 2048
            journal.append([bytes(300)], Purpose.UPKEEP)

    assert taken >= SETTINGS.reserve_bytes


def test_when_everything_is_used_up_a_release_still_finds_room_and_frees_segments() -> None:
    disk = SimulatedDisk()
    journal = opened(disk)
    disk.size_bytes = 0
    for purpose, size in itertools.product((Purpose.EVENTS, Purpose.UPKEEP), (7000, 900, 8)):
        fill(journal, purpose, size)

    journal.release(journal.durable)

    assert not journal.is_short
    journal.append([bytes(7000)])


@pytest.mark.parametrize("upkeep_bytes", [0, 80 * KIB])
def test_a_journal_without_any_reserve_still_finds_room_for_a_release(upkeep_bytes: int) -> None:
    settings = JournalSettings(
        segment_bytes=8 * KIB, initial_bytes=0, size_bytes=512 * KIB, reserve_bytes=0, upkeep_bytes=upkeep_bytes
    )
    journal = opened(SimulatedDisk(), settings=settings)
    for size in (3000, 100, 0):
        fill(journal, Purpose.EVENTS, size)
        fill(journal, Purpose.UPKEEP, size)

    journal.release(journal.durable)

    journal.append([bytes(3000)])


def test_a_write_that_fails_when_no_spare_is_left_says_both() -> None:
    refuses = False
    disk = SimulatedDisk(faults=lambda call: errno.EIO if refuses and call.operation == "write" else 0)
    journal = opened(disk)
    disk.size_bytes = 0
    for purpose, size in itertools.product((Purpose.EVENTS, Purpose.UPKEEP), (7000, 900)):
        fill(journal, purpose, size)
    refuses = True

    with pytest.raises(OutcomeUnknown, match="no spare segment is left"):
        journal.append([bytes(8)], Purpose.UPKEEP)
    with pytest.raises(DiskFailed, match="no spare segment is left") as refused:
        journal.append([bytes(8)], Purpose.UPKEEP)

    assert "EIO" in refused.value.sentence
    assert "deque" not in refused.value.sentence


def test_growing_is_tried_again_after_a_while_and_the_shortage_ends_when_space_returns() -> None:
    disk, clock = SimulatedDisk(), Clock()
    journal = opened(disk, clock)
    disk.size_bytes = 0
    fill(journal, Purpose.EVENTS, 4000)
    disk.size_bytes = None
    with pytest.raises(Blocked):
        journal.append([bytes(4000)])

    clock.now += 100
    while journal.wants_growth:
        assert journal.grow()

    assert not journal.is_short
    assert journal.pressure.reason == ""
    journal.append([bytes(4000)])


def test_at_its_full_size_the_journal_is_short_and_says_so_with_bytes_left_in_both_reserves() -> None:
    journal = opened(SimulatedDisk())

    while not journal.is_short:
        journal.append([bytes(4000)])

    pressure = journal.pressure
    assert "reached its size" in pressure.reason
    assert pressure.events_reserve_bytes >= SETTINGS.reserve_bytes
    assert pressure.upkeep_reserve_bytes >= SETTINGS.upkeep_bytes
    fill(journal, Purpose.EVENTS, 4000)
    assert journal.pressure.events_reserve_bytes == 0
    assert journal.pressure.upkeep_reserve_bytes >= SETTINGS.upkeep_bytes


def test_a_journal_that_is_opened_on_a_full_disk_opens_and_is_short() -> None:
    disk = SimulatedDisk()
    journal = opened(disk)
    journal.append([b"before"])
    journal.close()
    disk.size_bytes = 0
    larger = msgspec.structs.replace(SETTINGS, initial_bytes=900 * KIB)

    journal = opened(disk, settings=larger)

    assert journal.durable == 1
    assert journal.append([b"after"]) == 2


def test_appending_writes_nothing_but_segments_and_the_mark_and_makes_no_file_while_spares_last_a2() -> None:
    disk = SimulatedDisk()
    journal = opened(disk)
    calls: list[Call] = []

    def note(call: Call) -> int:
        calls.append(call)
        return 0

    disk.faults = note
    for _ in range(10):
        journal.commit([journal.draft(bytes(5000), Purpose.EVENTS)])

    assert {call.operation for call in calls} == {"write", "sync"}


def test_an_error_while_a_spare_is_made_leaves_nothing_behind_and_the_number_is_used_again() -> None:
    disk = SimulatedDisk()
    journal = opened(disk)
    total = len(disk.names(FOLDER))

    for operation in ("create", "write", "sync", "rename", "sync folder"):
        disk.faults = lambda call, failing=operation: errno.EIO if call.operation == failing else 0
        assert not journal.grow()
        disk.faults = None
        assert not [name for name in disk.names(FOLDER) if name.endswith(".preparing")]

    assert journal.grow()
    assert len(disk.names(FOLDER)) == total + 1
