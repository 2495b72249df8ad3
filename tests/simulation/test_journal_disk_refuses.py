"""The disk refuses one call, or all calls from one on: full, broken, or with half of a write done.

Nothing accepted is lost, and nothing that was not durable is called accepted: a segment that failed is never trusted again (A2).
"""

from __future__ import annotations

import errno

import pytest

from holdfast.channel.journal.journal import Journal
from holdfast.errors import DiskFailed, OutcomeUnknown
from holdfast.simulation.simulated_disk import (
    SHORT_WRITE,
    Call,
    Faults,
    SimulatedDisk,
    by_seed,
    everything_survives,
    nothing_survives,
)
from tests import effort
from tests.simulation.journal_life import FOLDER, SETTINGS, History, check, dice_of, run

FAULTS = {"full": errno.ENOSPC, "broken": errno.EIO, "short": SHORT_WRITE}
# Of the calls to the disk, how few are tried.
STEP = effort.rounds(short=3, long=1)


def once(number: int, fault: int) -> Faults:
    return lambda call: fault if call.number == number and fits(call, fault) else 0


def from_then_on(number: int, fault: int) -> Faults:
    return lambda call: fault if call.number >= number and fits(call, fault) else 0


def fits(call: Call, fault: int) -> bool:
    return fault != SHORT_WRITE or call.operation == "write"


def of_segments(faults: Faults) -> Faults:
    return lambda call: faults(call) if call.path.suffix == ".hfj" else 0


def calls_of_a_whole_run(seed: int) -> int:
    disk = SimulatedDisk()
    run(disk, History(), seed)
    return disk.calls


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_one_refusal_anywhere_costs_nothing_that_was_accepted(fault: int) -> None:
    seed, stopped = 1, 0

    for number in range(1, calls_of_a_whole_run(seed) + 1, 2 * STEP):
        disk, history = SimulatedDisk(faults=once(number, fault)), History()
        try:
            run(disk, history, seed)
        except (DiskFailed, OutcomeUnknown):
            stopped += 1
        check(disk.after_crash(by_seed(number)), history)
        check(disk.after_crash(everything_survives if number % 4 == 1 else nothing_survives), history)

    assert stopped <= 21, "only making the journal in the first place may fail for good; later the writer goes on elsewhere"


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_disk_that_refuses_everything_from_some_call_on_stops_the_journal_and_loses_nothing(fault: int) -> None:
    seed = 2

    for number in range(1, calls_of_a_whole_run(seed) + 1, 3 * STEP):
        disk, history = SimulatedDisk(faults=from_then_on(number, fault)), History()
        try:
            run(disk, history, seed)
        except (DiskFailed, OutcomeUnknown):
            pass
        check(disk.after_crash(by_seed(number)), history)
        check(disk.after_crash(everything_survives if number % 4 == 1 else nothing_survives), history)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_segments_that_refuse_everything_while_the_mark_can_still_be_written_lose_nothing(fault: int) -> None:
    """The mark must not name a segment whose header never came: that would look like a loss."""
    seed = 3

    for number in range(1, calls_of_a_whole_run(seed) + 1, 3 * STEP):
        disk, history = SimulatedDisk(faults=of_segments(from_then_on(number, fault))), History()
        try:
            run(disk, history, seed)
        except (DiskFailed, OutcomeUnknown):
            pass
        check(disk.after_crash(by_seed(number)), history)
        check(disk.after_crash(everything_survives), history)


@pytest.mark.parametrize("operation", ["write", "sync"])
@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EIO])
def test_a_journal_that_stopped_is_closed_in_good_order_and_opens_again_when_the_disk_is_mended(
    operation: str, fault: int
) -> None:
    disk = SimulatedDisk()
    journal = Journal.open(FOLDER, SETTINGS, disk=disk, dice=dice_of(1).randbytes)
    journal.append([b"accepted"])
    disk.faults = of_segments(lambda call: fault if call.operation == operation else 0)
    with pytest.raises(OutcomeUnknown):
        journal.append([b"lost or not"])
    disk.faults = None
    journal.close()

    with Journal.open(FOLDER, SETTINGS, disk=disk) as again:
        assert next(bytes(entry.command) for entry in again.read_from(1)) == b"accepted"
        again.append([b"and on it goes"])


def test_after_a_failed_sync_the_group_is_written_elsewhere_and_counts_once() -> None:
    disk = SimulatedDisk()
    journal = Journal.open(FOLDER, SETTINGS, disk=disk, dice=dice_of(1).randbytes)
    journal.append([b"before"])
    disk.faults = lambda call: errno.EIO if call.operation == "sync" and call.path.name == journal.chain[0].name else 0

    number = journal.append([b"the group whose sync failed"])

    assert number == 2
    assert [segment.generation for segment in journal.chain] == [1, 2]
    for survives in (nothing_survives, everything_survives, by_seed(3)):
        with Journal.open(FOLDER, SETTINGS, disk=disk.after_crash(survives)) as again:
            assert [bytes(entry.command) for entry in again.read_from(1)] == [b"before", b"the group whose sync failed"]


def test_when_no_segment_takes_a_group_its_outcome_is_unknown_and_later_appends_are_refused() -> None:
    disk = SimulatedDisk()
    journal = Journal.open(FOLDER, SETTINGS, disk=disk, dice=dice_of(1).randbytes)
    journal.append([b"before"])
    disk.faults = lambda call: errno.EIO if call.operation == "sync" else 0

    with pytest.raises(OutcomeUnknown, match="same source and id"):
        journal.append([b"lost or not"])

    disk.faults = None
    with pytest.raises(DiskFailed, match="open the journal again"):
        journal.append([b"not even tried"])
    assert journal.durable == 1
    assert [bytes(entry.command) for entry in journal.read_from(1)] == [b"before"]
    with Journal.open(FOLDER, SETTINGS, disk=disk.after_crash(everything_survives)) as again:
        assert [bytes(entry.command) for entry in again.read_from(1)] in ([b"before"], [b"before", b"lost or not"])


def test_a_disk_that_is_full_when_the_journal_is_made_refuses_it_and_leaves_no_half_segment() -> None:
    disk = SimulatedDisk(size_bytes=3 * 8192)

    with pytest.raises(DiskFailed, match="make room"):
        Journal.open(FOLDER, SETTINGS, disk=disk)

    assert not [name for name in disk.names(FOLDER) if name.endswith(".preparing")]
    disk.size_bytes = None
    with Journal.open(FOLDER, SETTINGS, disk=disk) as journal:
        assert journal.append([b"now there is room"]) == 1
