"""A damaged journal is judged, not guessed at (A11): a bit flipped at every byte, a file cut at every byte, any file missing.

Whatever is damaged, either every entry is there as it was written, or JournalDamaged names the place. Never a wrong entry, never
fewer of them.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from holdfast.channel.channel import Purpose
from holdfast.channel.journal.files.layout import HEADER_BYTES, MAGIC, MARK_NAME, lead_checksum, segment_name
from holdfast.channel.journal.journal import Journal
from holdfast.channel.journal.reading.inspection import Report, verify
from holdfast.channel.journal.settings import JournalSettings
from holdfast.errors import JournalDamaged, UnknownVersion
from holdfast.simulation.simulated_disk import PowerCut, SimulatedDisk, everything_survives
from tests import effort

FOLDER = Path("/journal")
SETTINGS = JournalSettings(segment_bytes=8192, initial_bytes=0, size_bytes=6 * 8192, reserve_bytes=1000, upkeep_bytes=1000)


class Sample:
    """A journal that has recycled segments, a snapshot and three segments in use, closed in good order."""

    def __init__(self, *, is_closed: bool = True) -> None:
        dice = random.Random(4)
        self.disk = SimulatedDisk()
        journal = Journal.open(FOLDER, SETTINGS, disk=self.disk, dice=dice.randbytes)
        self.entries: dict[int, bytes] = {}
        for number in range(1, 186):
            self.entries[number] = dice.randbytes(dice.randint(0, 700))
            journal.append([self.entries[number]], Purpose.UPKEEP)
            if number % 5 == 0:
                journal.release(max(1, number - 50))
            if number == 180:
                journal.save_snapshot(170, [b"state", b"of 170"])
        self.first, self.durable = journal.first, journal.durable
        self.chain = [(segment.name, segment.end) for segment in journal.chain]
        self.last_group = self.durable
        assert self.first > 1
        assert len(self.chain) >= 3
        if is_closed:
            journal.close()
        else:
            self.disk.cut_at = self.disk.calls
            with pytest.raises(PowerCut):
                journal.append([b"cut"])
            self.disk = self.disk.after_crash(everything_survives)

    def places(self) -> list[tuple[str, int]]:
        """Every byte that means something: all headers, everything written in the segments in use, the mark."""
        written = [(name, byte) for name, end in self.chain for byte in range(HEADER_BYTES, end)]
        headers = [(name, byte) for name in self.names() if name != MARK_NAME for byte in range(HEADER_BYTES)]
        return [*headers, *written, *((MARK_NAME, byte) for byte in range(len(self.disk.content(FOLDER / MARK_NAME))))]

    def names(self) -> list[str]:
        return self.disk.names(FOLDER)

    def expected(self) -> dict[int, bytes]:
        return {number: self.entries[number] for number in range(self.first, self.durable + 1)}


def read_all(disk: SimulatedDisk) -> dict[int, bytes]:
    with Journal.open(FOLDER, SETTINGS, disk=disk, dice=random.Random(1).randbytes) as journal:
        found = {entry.number: bytes(entry.command) for entry in journal.read_from(journal.first)}
        assert journal.load_snapshot() == (170, [b"state", b"of 170"])
        return found


def flipped(sample: Sample, name: str, byte: int) -> SimulatedDisk:
    disk = sample.disk.copy()
    disk.content(FOLDER / name)[byte] ^= 1 << (byte % 8)
    return disk


def test_a_bit_flipped_anywhere_is_found_or_harmless_a11() -> None:
    sample = Sample()
    places = sample.places()[:: effort.rounds(short=23, long=1)]
    found_damaged = 0

    for name, byte in places:
        disk = flipped(sample, name, byte)
        report = verify(FOLDER, disk=disk)
        try:
            entries = read_all(disk)
        except JournalDamaged as problem:
            found_damaged += 1
            check_place(report, problem, name, byte)
        else:
            assert entries == sample.expected()
            assert report.file in ("", name), "a note that no reader needs may be what was hit"

    assert found_damaged > 0.9 * len(places)


def check_place(report: Report, problem: JournalDamaged, name: str, byte: int) -> None:
    assert report.state == "damaged"
    assert report.file == name
    assert report.byte <= byte
    if byte >= HEADER_BYTES:
        assert byte - report.byte <= 800, "the record that is named is the one that was hit"
    assert name in problem.sentence


def test_without_the_mark_a_flipped_bit_costs_at_most_the_group_that_nothing_was_written_after() -> None:
    sample = Sample(is_closed=False)
    sample.disk.unlink(FOLDER / MARK_NAME)
    tail, end = sample.chain[-1]

    for byte in range(HEADER_BYTES, end, effort.rounds(short=5, long=1)):
        disk = flipped(sample, tail, byte)
        try:
            entries = read_all(disk)
        except JournalDamaged as problem:
            assert problem.fields["file"] == tail
        else:
            kept = sample.expected()
            assert entries in (kept, {number: kept[number] for number in kept if number < sample.last_group})


@pytest.mark.slow
@pytest.mark.parametrize("is_tail", [True, False])
def test_a_segment_cut_at_any_byte_is_refused_and_named_a11(is_tail: bool) -> None:
    sample = Sample()
    name = sample.chain[-1 if is_tail else 0][0]

    for size in range(8191, -1, -effort.rounds(short=13, long=1)):
        disk = sample.disk
        del disk.content(FOLDER / name)[size:]
        report = verify(FOLDER, disk=disk)
        assert (report.state, report.file) == ("damaged", name)
        assert report.byte <= size
        with pytest.raises(JournalDamaged):
            Journal.open(FOLDER, SETTINGS, disk=disk)


def test_a_mark_cut_at_any_byte_claims_nothing_and_hurts_nothing() -> None:
    sample = Sample()

    for size in range(len(sample.disk.content(FOLDER / MARK_NAME))):
        disk = sample.disk.copy()
        del disk.content(FOLDER / MARK_NAME)[size:]
        assert read_all(disk) == sample.expected()


def test_any_file_missing_is_noticed_unless_it_was_the_last_of_the_spares() -> None:
    sample = Sample()
    in_use = {name for name, _ in sample.chain}

    for name in sample.names():
        disk = sample.disk.copy()
        disk.unlink(FOLDER / name)
        try:
            entries = read_all(disk)
        except JournalDamaged as problem:
            assert name != MARK_NAME
            assert problem.fields["file"]
        else:
            assert name not in in_use
            assert entries == sample.expected()


def test_two_files_exchanged_or_one_copied_over_another_is_noticed() -> None:
    sample = Sample()
    first, second = sample.chain[0][0], sample.chain[1][0]

    disk = sample.disk.copy()
    one, other = disk.content(FOLDER / first), disk.content(FOLDER / second)
    one[:], other[:] = bytes(other), bytes(one)

    assert verify(FOLDER, disk=disk).state == "damaged"


def test_a_sector_of_zeros_in_what_was_durable_is_found_a11() -> None:
    """What a disk gives back for a sector that it lost."""
    sample = Sample()

    for name, end in sample.chain:
        for start in range(0, end, 512):
            disk = sample.disk.copy()
            disk.content(FOLDER / name)[start : start + 512] = bytes(512)
            assert verify(FOLDER, disk=disk).state == "damaged"
            with pytest.raises(JournalDamaged):
                read_all(disk)


def test_a_newer_version_is_not_damage() -> None:
    sample = Sample()
    head = sample.disk.content(FOLDER / segment_name(1))
    head[:16] = MAGIC + (2).to_bytes(4, "little") + lead_checksum(2).to_bytes(4, "little")

    assert verify(FOLDER, disk=sample.disk).state == "newer version"
    with pytest.raises(UnknownVersion, match="newer"):
        Journal.open(FOLDER, SETTINGS, disk=sample.disk)
