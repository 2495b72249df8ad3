"""The power goes at every single call that reaches the disk; whatever a disk may then hold, nothing that was accepted is lost (A2, A3, A11).

One run of a small journal, with appends of many sizes, growth, a snapshot and recycling, is cut at every write, sync, rename … For each
cut, several outcomes of what was not synced are tried: nothing survived, everything did, and by seed any mixture of sectors and names.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.channel.channel import Purpose
from holdfast.channel.journal.journal import Journal
from holdfast.channel.journal.settings import JournalSettings
from holdfast.simulation.disk import (
    PowerCut,
    SimulatedDisk,
    Survival,
    by_choice,
    by_seed,
    everything_survives,
    nothing_survives,
)

FOLDER = Path("/journal")
SETTINGS = JournalSettings(
    segment_bytes=8192, initial_bytes=0, size_bytes=10 * 8192, reserve_bytes=4000, upkeep_bytes=4000, read_cache_bytes=1 << 16
)
SEEDS = 4


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
    journal = Journal.open(FOLDER, SETTINGS, disk=disk, dice=dice.randbytes, clock=lambda: 0.0)
    for step in range(40):
        commands = [dice.randbytes(dice.choice((1, 30, 500, 1500, 3000))) for _ in range(dice.randint(1, 4))]
        history.offered += commands
        journal.append(commands, dice.choice((Purpose.EVENTS, Purpose.UPKEEP)))
        history.accepted = journal.durable
        if step % 5 == 2:
            history.snapshots.append((journal.durable, [dice.randbytes(dice.choice((0, 10, 4000))) for _ in range(dice.randint(0, 2))]))
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


def survivals(disk: SimulatedDisk, seed: int) -> Iterator[Survival]:
    yield nothing_survives
    yield everything_survives
    undecided = disk.undecided()
    if undecided <= 3:
        yield from (by_choice(bits) for bits in range(1, 2**undecided - 1))
    else:
        yield from (by_seed(seed * 1000 + number) for number in range(SEEDS))


def calls_of_a_whole_run(seed: int) -> int:
    disk = SimulatedDisk()
    run(disk, History(), seed)
    return disk.calls


@pytest.mark.parametrize("seed", range(3))
def test_nothing_accepted_is_lost_wherever_the_power_goes_rule_2(seed: int) -> None:
    calls = calls_of_a_whole_run(seed)
    assert calls > 200, "the run must be long enough to recycle, grow and save snapshots"

    for cut_at in range(calls):
        disk, history = SimulatedDisk(cut_at=cut_at), History()
        with pytest.raises(PowerCut):
            run(disk, history, seed)
        for survives in survivals(disk, cut_at):
            check(disk.after_crash(survives), history)


@pytest.mark.parametrize("seed", range(2))
def test_a_second_crash_while_opening_after_the_first_loses_nothing_either(seed: int) -> None:
    calls = calls_of_a_whole_run(seed)

    for cut_at in range(0, calls, 7):
        disk, history = SimulatedDisk(cut_at=cut_at), History()
        with pytest.raises(PowerCut):
            run(disk, history, seed)
        first = disk.after_crash(by_seed(cut_at))
        for cut_again in range(12):
            second = first.copy()
            second.cut_at = cut_again
            try:
                Journal.open(FOLDER, SETTINGS, disk=second, dice=dice_of(5).randbytes, clock=lambda: 0.0)
            except PowerCut:
                check(second.after_crash(by_seed(cut_again)), history)


def test_the_run_that_is_cut_grows_recycles_and_meets_a_full_journal() -> None:
    disk, history = SimulatedDisk(), History()

    run(disk, history, 0)

    with Journal.open(FOLDER, SETTINGS, disk=disk) as journal:
        assert journal.first > 1, "segments were released"
        assert journal.chain[-1].generation > 10, "segments live more than once"
        assert journal.load_snapshot() is not None
