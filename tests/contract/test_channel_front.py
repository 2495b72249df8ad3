"""Fetching only the front of commands, over every kind of channel: what selectors and groups read, without the bodies."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from holdfast.channel.journal.files.disk import PosixDisk, PosixFile
from holdfast.channel.journal.journal import Journal
from holdfast.channel.journal.settings import JournalSettings
from holdfast.errors import NoSuchPosition
from tests.contract.channels import Kind, append_all, opened

KIB = 1 << 10
SMALL = JournalSettings(segment_bytes=4 << 20, initial_bytes=0, size_bytes=64 << 20, reserve_bytes=1 << 20, upkeep_bytes=1 << 20)


async def test_the_front_of_a_command_is_at_least_as_long_as_asked_or_all_of_it(kind: Kind) -> None:
    dice = random.Random(7)
    wanted = [dice.randbytes(dice.choice([1, 50, 5 * KIB, 60 * KIB])) for _ in range(60)]
    async with opened(kind) as channel:
        await append_all(channel, wanted)
        for numbers in ([*range(1, 61)], [60, 1, 30], [7]):
            for front in (1, 100, 10 * KIB):
                found = await channel.fetch(numbers, None, front)

                assert len(found) == len(numbers)
                for number, data in zip(numbers, found, strict=True):
                    whole = wanted[number - 1]
                    assert len(data) >= min(front, len(whole)) and whole.startswith(bytes(data))


async def test_the_front_of_what_is_not_held_is_refused_as_the_whole_is(kind: Kind) -> None:
    async with opened(kind) as channel:
        await channel.append(b"one")

        with pytest.raises(NoSuchPosition):
            await channel.fetch([2], None, 10)


class CountedFile(PosixFile):
    def __init__(self, file: PosixFile, disk: CountingDisk) -> None:
        super().__init__(file._descriptor)
        self._disk = disk

    def read(self, length: int, at: int) -> bytes:
        data = super().read(length, at)
        self._disk.bytes_read += len(data)
        return data


class CountingDisk(PosixDisk):
    """The real disk, and how many bytes were read."""

    def __init__(self) -> None:
        self.bytes_read = 0

    def open(self, path: Path, *, is_writable: bool) -> PosixFile:
        return CountedFile(super().open(path, is_writable=is_writable), self)


@pytest.mark.parametrize("is_opened_again", [False, True])
def test_the_bodies_of_large_commands_are_not_read_for_their_fronts(tmp_path: Path, is_opened_again: bool) -> None:
    bodies = [bytes([number]) * (256 * KIB) for number in range(40)]
    disk = CountingDisk()
    journal = Journal.open(tmp_path / "journal", SMALL, disk=disk)
    journal.append(bodies)
    if is_opened_again:
        journal.close()
        journal = Journal.open(tmp_path / "journal", SMALL, disk=disk)
    disk.bytes_read = 0

    fronts = journal.fetch(range(1, 41), None, 4 * KIB)

    assert [bytes(front[: 4 * KIB]) for front in fronts] == [body[: 4 * KIB] for body in bodies]
    assert disk.bytes_read < 40 * 8 * KIB, "of ten megabytes"
    journal.close()


def test_short_commands_are_read_together_with_their_neighbours(tmp_path: Path) -> None:
    disk = CountingDisk()
    with Journal.open(tmp_path / "journal", SMALL, disk=disk) as journal:
        journal.append([b"%05d" % number * 40 for number in range(1, 5_001)])
        disk.bytes_read = 0

        fronts = journal.fetch(range(1, 5_001), None, 4 * KIB)

        assert [bytes(front[:5]) for front in fronts] == [b"%05d" % number for number in range(1, 5_001)]
        assert disk.bytes_read < 4 << 20
