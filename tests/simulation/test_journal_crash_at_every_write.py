"""The power goes at every single call that reaches the disk; whatever it may then hold, nothing accepted is lost (A2, A3, A11).

One run of a small journal, with appends of many sizes, growth, a snapshot and recycling, is cut at every write, sync, rename …
For each cut, several outcomes of what was not synced are tried: nothing survived, everything did, and by seed any mixture of
sectors and names.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.channel.journal.journal import Journal
from holdfast.simulation.simulated_disk import (
    PowerCut,
    SimulatedDisk,
    Survival,
    by_choice,
    by_seed,
    everything_survives,
    nothing_survives,
)
from tests import effort
from tests.simulation.journal_life import FOLDER, SETTINGS, History, check, dice_of, run

SEEDS = 4


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


@pytest.mark.slow
@pytest.mark.parametrize("seed", effort.cases([0], long=[1, 2, 3, 4]))
def test_nothing_accepted_is_lost_wherever_the_power_goes_rule_2(seed: int) -> None:
    calls = calls_of_a_whole_run(seed)
    assert calls > 200, "the run must be long enough to recycle, grow and save snapshots"

    for cut_at in range(calls):
        disk, history = SimulatedDisk(cut_at=cut_at), History()
        with pytest.raises(PowerCut):
            run(disk, history, seed)
        for survives in survivals(disk, cut_at):
            check(disk.after_crash(survives), history)


@pytest.mark.parametrize("seed", effort.cases([0], long=[1]))
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
