"""What a crash leaves behind the tail, or in a segment that was about to be used, never comes back as an entry (A11).

Each of these was an accident waiting to happen: a record of the lost group that fits exactly behind the next one, a
generation that is given twice, a segment that is used again before its release is durable.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.channel.channel import Purpose
from holdfast.channel.journal.files.layout import HEADER_BYTES, MARK_NAME, segment_name
from holdfast.channel.journal.journal import Journal
from holdfast.channel.journal.settings import JournalSettings
from holdfast.simulation.simulated_disk import PowerCut, SimulatedDisk, by_choice, by_seed
from tests.simulation.journal_life import dice_of

FOLDER = Path("/journal")
SMALL = JournalSettings(segment_bytes=8192, initial_bytes=0, size_bytes=8 * 8192, reserve_bytes=0, upkeep_bytes=0)
# Two segments and nothing else: what is released is used again at once.
TIGHT = JournalSettings(segment_bytes=8192, initial_bytes=0, size_bytes=2 * 8192, reserve_bytes=0, upkeep_bytes=0)
# With its head, a record of exactly one or two sectors.
ONE_SECTOR, TWO_SECTORS = 488, 1000


def opened(disk: SimulatedDisk, settings: JournalSettings = SMALL, seed: int = 1) -> Journal:
    return Journal.open(FOLDER, settings, disk=disk, dice=dice_of(seed).randbytes, clock=lambda: 0.0)


def commands(disk: SimulatedDisk, settings: JournalSettings = SMALL) -> list[bytes]:
    with opened(disk, settings) as journal:
        return [bytes(entry.command) for entry in journal.read_from(journal.first)]


def test_a_record_of_a_torn_group_does_not_come_back_behind_the_one_that_replaces_its_neighbour() -> None:
    disk = SimulatedDisk()
    journal = opened(disk)
    journal.append([b"b" * ONE_SECTOR])
    journal.append([b"lost" * 250, b"left" * 250])
    disk.unlink(FOLDER / MARK_NAME)
    content = disk.content(FOLDER / journal.chain[-1].name)
    content[1024 : 1024 + 1024] = bytes(1024)  # the sectors of the first record of the group never reached the disk
    survived = disk.copy()

    opened(survived, seed=2).append([b"new!" * 250])

    assert commands(survived.copy()) == [b"b" * ONE_SECTOR, b"new!" * 250]


def test_records_whose_header_was_lost_do_not_come_back_when_their_generation_is_given_again() -> None:
    disk = SimulatedDisk()
    journal = opened(disk)
    journal.append([bytes(7000)])
    before = disk.copy()
    journal.append([b"lost" * 250, b"left" * 250])
    tail = journal.chain[-1]
    assert (tail.number, tail.generation) == (2, 2)
    written = bytes(disk.content(FOLDER / segment_name(2)))
    before.content(FOLDER / segment_name(2))[HEADER_BYTES:] = written[HEADER_BYTES:]  # all but the header reached the disk

    again = opened(before, seed=2)
    again.append([b"new!" * 250])

    assert (again.chain[-1].number, again.chain[-1].generation) == (2, 2)
    assert commands(before.copy()) == [bytes(7000), b"new!" * 250]


def test_a_segment_that_is_used_again_at_once_was_released_durably_before_wherever_the_power_goes_rule_8() -> None:
    for cut_at in range(1, 400):
        disk, accepted, released = SimulatedDisk(cut_at=cut_at), 0, 1
        try:
            journal = opened(disk, TIGHT)
            for number in range(1, 31):
                journal.append([bytes([number]) * TWO_SECTORS, bytes([number]) * TWO_SECTORS], Purpose.EVENTS)
                accepted = journal.durable
                released = journal.durable
                journal.release(released)
        except PowerCut:
            pass
        else:
            break
        for survives in (*(by_choice(bits) for bits in range(16)), *(by_seed(cut_at * 100 + seed) for seed in range(4))):
            found = commands(disk.after_crash(survives), TIGHT)
            check(found, accepted, released)
    assert accepted == 60
    assert disk.calls < 400


def check(found: list[bytes], accepted: int, released: int) -> None:
    """Each entry is made of its number, halved: a gap, a stranger or a missing end shows."""
    if not found:
        assert accepted == 0
        return
    numbers = [command[0] for command in found]
    assert all(command == bytes([command[0]]) * TWO_SECTORS for command in found)
    assert numbers == sorted(numbers)
    assert numbers[-1] >= accepted // 2
    assert numbers[0] <= (released + 1) // 2
