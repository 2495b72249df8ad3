"""The life of a small journal on a simulated disk: what is done to it, what the world is told, what must be true afterwards."""

from __future__ import annotations

import random
from pathlib import Path

from holdfast.channel.channel import Purpose
from holdfast.channel.journal.journal import Journal
from holdfast.channel.journal.settings import JournalSettings
from holdfast.errors import Blocked
from holdfast.simulation.simulated_disk import SimulatedDisk

FOLDER = Path("/journal")
SETTINGS = JournalSettings(
    segment_bytes=8192, initial_bytes=0, size_bytes=10 * 8192, reserve_bytes=4000, upkeep_bytes=4000, read_cache_bytes=1 << 16
)


class History:
    """What the world was told: receipts, snapshots, releases."""

    def __init__(self) -> None:
        self.offered: list[bytes] = []
        self.accepted = 0
        self.released_below = 1
        self.snapshots: list[tuple[int, list[bytes]]] = []
        self.saved = 0


def dice_of(seed: int) -> random.Random:
    return random.Random(seed)


def run(disk: SimulatedDisk, history: History, seed: int) -> None:
    """A life of a journal, with everything in it."""
    dice = dice_of(seed)
    ticks = iter(range(0, 10_000_000, 1000))
    journal = Journal.open(FOLDER, SETTINGS, disk=disk, dice=dice.randbytes, clock=lambda: float(next(ticks)))
    for step in range(40):
        commands = [dice.randbytes(dice.choice((1, 30, 500, 1500, 3000))) for _ in range(dice.randint(1, 4))]
        history.offered += commands
        try:
            journal.append(commands, dice.choice((Purpose.EVENTS, Purpose.UPKEEP)))
        except Blocked:
            del history.offered[journal.durable :]
        history.accepted = journal.durable
        if step % 5 == 2:
            chunks = [dice.randbytes(dice.choice((0, 10, 4000))) for _ in range(dice.randint(0, 2))]
            history.snapshots.append((journal.durable, chunks))
            journal.save_snapshot(*history.snapshots[-1])
            history.saved = len(history.snapshots)
        if step % 4 == 3:
            history.released_below = max(1, journal.durable - 3)
            journal.release(history.released_below)
    journal.close()


def check(disk: SimulatedDisk, history: History) -> None:
    """Open what is left: everything accepted is there, nothing was invented, and opening it again changes nothing."""
    dice = dice_of(99)
    seen = []
    for _ in range(2):
        with Journal.open(FOLDER, SETTINGS, disk=disk, dice=dice.randbytes, clock=lambda: 0.0) as journal:
            assert journal.durable >= history.accepted
            assert journal.durable <= len(history.offered)
            assert journal.first <= history.released_below
            found = {entry.number: bytes(entry.command) for entry in journal.read_from(journal.first)}
            assert found == {number: history.offered[number - 1] for number in range(journal.first, journal.durable + 1)}
            check_snapshot(journal, history)
            seen.append((journal.first, journal.durable))
    assert seen[0] == seen[1]
    check_goes_on(disk, seen[1][1], found)


def check_snapshot(journal: Journal, history: History) -> None:
    snapshot = journal.load_snapshot()
    allowed = history.snapshots[max(0, history.saved - 1) :]
    if snapshot is None:
        assert history.saved == 0
    else:
        assert (snapshot.at, [bytes(chunk) for chunk in snapshot.chunks]) in allowed


def check_goes_on(disk: SimulatedDisk, durable: int, found: dict[int, bytes]) -> None:
    """What is written after a recovery is not mixed up with what the crash left behind."""
    dice = dice_of(7)
    with Journal.open(FOLDER, SETTINGS, disk=disk, dice=dice.randbytes, clock=lambda: 0.0) as journal:
        for count in range(1, 7):
            assert journal.append([b"after" * count], Purpose.UPKEEP) == durable + count
    with Journal.open(FOLDER, SETTINGS, disk=disk, dice=dice.randbytes, clock=lambda: 0.0) as journal:
        found |= {durable + count: b"after" * count for count in range(1, 7)}
        assert {entry.number: bytes(entry.command) for entry in journal.read_from(journal.first)} == found
