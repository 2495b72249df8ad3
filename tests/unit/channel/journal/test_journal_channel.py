"""The journal in an event loop: group commit, readers that lag, spares made in the background, and ends in good order."""

from __future__ import annotations

import asyncio
import errno
import itertools
import threading
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.channel.channel import Entry, Pressure, Purpose, Receipt
from holdfast.channel.journal.files.disk import DiskFile
from holdfast.channel.journal.journal_channel import JournalChannel
from holdfast.channel.journal.reading.found_journal import read_mark
from holdfast.channel.journal.settings import JournalSettings
from holdfast.errors import Blocked, Closed, DiskFailed, HoldfastError, OutcomeUnknown
from holdfast.simulation.simulated_disk import Call, SimulatedDisk, everything_survives
from tests.waiting import turn_loop

FOLDER = Path("/journal")
KIB = 1 << 10
SMALL = JournalSettings(
    segment_bytes=64 * KIB, initial_bytes=0, size_bytes=4096 * KIB, reserve_bytes=64 * KIB, upkeep_bytes=64 * KIB,
    tail_cache_bytes=64 * KIB, read_cache_bytes=64 * KIB,
)  # fmt: skip


def counted(disk: SimulatedDisk, operation: str) -> list[Call]:
    """The calls of this kind from now on, to segments."""
    calls: list[Call] = []

    def note(call: Call) -> int:
        if call.operation == operation and call.path.suffix == ".hfj":
            calls.append(call)
        return 0

    disk.faults = note
    return calls


def is_segment_sync(call: Call) -> bool:
    """Of a segment in use: one that is being made has another name yet."""
    return call.operation == "sync" and call.path.suffix == ".hfj"


async def read_up_to(channel: JournalChannel, start: int, end: int) -> list[Entry]:
    found: list[Entry] = []
    async with aclosing(cast(Any, channel.read(start))) as runs:
        while not found or found[-1].number < end:
            found += await anext(runs)
    return [Entry(number, bytes(command)) for number, command in found]


async def test_what_is_appended_in_one_turn_shares_one_write_and_one_sync() -> None:
    disk = SimulatedDisk()
    async with await JournalChannel.open(FOLDER, SMALL, disk=disk) as channel:
        await channel.append(b"the segment is begun")
        syncs = counted(disk, "sync")

        await asyncio.gather(*(channel.append(b"%d" % number) for number in range(300)))

        assert len(syncs) == 1


async def test_a_lone_append_goes_at_once_with_a_sync_of_its_own() -> None:
    disk = SimulatedDisk()
    async with await JournalChannel.open(FOLDER, SMALL, disk=disk) as channel:
        syncs = counted(disk, "sync")

        for _ in range(5):
            await channel.append(b"alone")

        assert len(syncs) == 5


async def test_a_burst_larger_than_what_is_ready_waits_for_more_segments_instead_of_being_blocked() -> None:
    async with await JournalChannel.open(FOLDER, SMALL, disk=SimulatedDisk()) as channel:
        receipts = await asyncio.gather(*(channel.append(bytes(30_000)) for _ in range(80)))

        assert [receipt.entry for receipt in receipts] == list(range(1, 81))
        assert not channel.pressure.is_short


async def test_a_segment_that_cannot_be_made_for_whatever_reason_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    async with await JournalChannel.open(FOLDER, SMALL, disk=disk) as channel:

        def create(path: Path, size: int) -> DiskFile:
            raise MemoryError("there is none left")

        monkeypatch.setattr(disk, "create", create)
        appends = [channel.append(bytes(8 * KIB)) for _ in range(200)]
        outcomes = await asyncio.wait_for(asyncio.gather(*appends, return_exceptions=True), 30)

        assert {type(outcome) for outcome in outcomes} == {Receipt, Blocked}
        assert "there is none left" in channel.pressure.reason
        monkeypatch.undo()


async def test_a_reader_that_lags_behind_the_memory_reads_the_disk_and_then_lives_on_rule_2() -> None:
    async with await JournalChannel.open(FOLDER, SMALL, disk=SimulatedDisk()) as channel:
        written = [b"%05d" % number * 100 for number in range(1, 2001)]
        await asyncio.gather(*map(channel.append, written))
        reader = asyncio.ensure_future(read_up_to(channel, 1, 2001))
        await turn_loop()

        await channel.append(b"live")

        assert await reader == [Entry(number, command) for number, command in enumerate([*written, b"live"], 1)]


async def test_memory_for_recent_commands_is_bounded_however_many_there_are() -> None:
    async with await JournalChannel.open(FOLDER, SMALL, disk=SimulatedDisk()) as channel:
        for _ in range(30):
            await asyncio.gather(*(channel.append(bytes(1000)) for _ in range(100)))

        assert channel._tail.next_entry == 3001
        assert (channel._tail.next_entry - channel._tail.first) * 1000 <= SMALL.tail_cache_bytes


async def test_a_command_is_copied_so_that_its_buffer_may_be_used_again_after_the_receipt() -> None:
    async with await JournalChannel.open(FOLDER, SMALL, disk=SimulatedDisk()) as channel:
        buffer = bytearray(b"first")

        await channel.append(memoryview(buffer))
        buffer[:] = b"other"

        assert await channel.fetch([1]) == [b"first"]


async def test_watchers_hear_of_a_shortage_and_of_its_end() -> None:
    disk, told = SimulatedDisk(), list[Pressure]()
    async with await JournalChannel.open(FOLDER, SMALL, disk=disk) as channel:
        channel.watch_pressure(told.append)
        disk.size_bytes = 0
        with pytest.raises(Blocked, match="ENOSPC"):
            while True:
                await channel.append(bytes(10_000))
        await channel.append(b"upkeep has room of its own", Purpose.UPKEEP)

        await channel.release(channel.durable)

        assert [pressure.is_short for pressure in told] == [True, False]
        assert "ENOSPC" in told[0].reason
        assert (await channel.append(bytes(10_000))).entry == channel.durable


async def test_while_a_snapshot_is_saved_a_release_keeps_its_parts() -> None:
    async with await JournalChannel.open(FOLDER, SMALL, disk=SimulatedDisk()) as channel:
        chunks = [bytes([number]) * 20_000 for number in range(20)]

        async def save() -> None:
            await channel.save_snapshot(0, chunks)

        async def append_and_release() -> None:
            for _ in range(40):
                receipt = await channel.append(bytes(20_000))
                await channel.release(receipt.entry)

        await asyncio.gather(save(), append_and_release())

        snapshot = await channel.load_snapshot()
        assert snapshot is not None
        assert [bytes(chunk) for chunk in snapshot.chunks] == chunks


@pytest.mark.parametrize("count", [1, 100])
async def test_a_failed_sync_is_answered_with_a_receipt_only_when_it_is_durable_elsewhere(count: int) -> None:
    disk = SimulatedDisk()
    channel = await JournalChannel.open(FOLDER, SMALL, disk=disk)
    await channel.append(b"before")
    failing = itertools.count()
    disk.faults = lambda call: errno.EIO if is_segment_sync(call) and next(failing) == 0 else 0

    receipts = await asyncio.gather(*(channel.append(b"%d" % number) for number in range(count)))

    assert [receipt.entry for receipt in receipts] == list(range(2, count + 2))
    again = await JournalChannel.open(FOLDER, SMALL, disk=disk.after_crash(everything_survives))
    assert [entry.command for entry in await read_up_to(again, 2, count + 1)] == [b"%d" % number for number in range(count)]
    await again.close()
    await channel.close()


@pytest.mark.parametrize("count", [1, 100])
async def test_when_the_disk_takes_nothing_more_nobody_is_left_waiting(count: int) -> None:
    disk = SimulatedDisk()
    async with await JournalChannel.open(FOLDER, SMALL, disk=disk) as channel:
        await channel.append(b"before")
        disk.faults = lambda call: errno.EIO if call.operation == "sync" else 0

        outcomes = await asyncio.gather(*(channel.append(b"x") for _ in range(count)), return_exceptions=True)

        assert {type(outcome) for outcome in outcomes} == {OutcomeUnknown}
        with pytest.raises(DiskFailed):
            await channel.append(b"later")
        assert channel.durable == 1
        assert [entry.command for entry in await read_up_to(channel, 1, 1)] == [b"before"]


async def test_close_answers_what_waits_and_ends_readers_rule_8() -> None:
    channel = await JournalChannel.open(FOLDER, SMALL, disk=SimulatedDisk())
    await channel.append(b"there")
    reader = asyncio.ensure_future(read_up_to(channel, 1, 2))
    await turn_loop()
    waiting = channel.append(b"not begun")

    await channel.close()

    for answer in (waiting, reader, channel.append(b"after")):
        with pytest.raises(Closed):
            await answer
    with pytest.raises(Closed):
        await channel.fetch([1])


async def test_close_ends_a_snapshot_that_is_being_saved() -> None:
    """Also where one of its groups is just being written: the next one is not waited for."""
    disk, writing, go_on = SimulatedDisk(), threading.Event(), threading.Event()
    channel = await JournalChannel.open(FOLDER, JournalSettings(), disk=disk)
    await channel.append(b"there")

    def hold_up(call: Call) -> int:
        if threading.current_thread() is not threading.main_thread():  # the loop itself writes the mark, and must go on
            writing.set()
            go_on.wait(60)
        return 0

    disk.faults = hold_up
    saving = asyncio.ensure_future(channel.save_snapshot(1, [bytes(200 * KIB)] * 60))
    await asyncio.to_thread(writing.wait, 60)
    closing = asyncio.ensure_future(channel.close())
    await turn_loop()
    go_on.set()

    await asyncio.wait_for(closing, 60)
    with pytest.raises(Closed):
        await asyncio.wait_for(saving, 60)


async def test_the_journal_of_a_channel_that_was_closed_can_be_opened_again_on_a_real_disk(tmp_path: Path) -> None:
    async with await JournalChannel.open(tmp_path / "journal", SMALL) as channel:
        await asyncio.gather(*(channel.append(b"%d" % number) for number in range(1000)))

    async with await JournalChannel.open(tmp_path / "journal", SMALL) as channel:
        assert (channel.first, channel.durable) == (1, 1000)
        assert [bytes(command) for command in await channel.fetch([1, 500, 1000])] == [b"0", b"499", b"999"]


async def test_the_durable_mark_keeps_up_with_callers_that_append_as_soon_as_they_are_told() -> None:
    disk, rounds, marked = SimulatedDisk(), 20, list[int]()
    async with await JournalChannel.open(FOLDER, SMALL, disk=disk) as channel:
        is_done = asyncio.Event()

        def told(outcome: Receipt | HoldfastError) -> None:
            assert isinstance(outcome, Receipt)
            mark = read_mark(disk, FOLDER)
            marked.append(mark.entry if mark else 0)
            if len(marked) % 8 == 0 and len(marked) < 8 * rounds:
                submit_a_group()
            elif len(marked) == 8 * rounds:
                is_done.set()

        def submit_a_group() -> None:
            """Too many for the loop itself: it is committed in the writer's thread."""
            for _ in range(8):
                channel.submit(b"next", Purpose.EVENTS, told)

        submit_a_group()
        await asyncio.wait_for(is_done.wait(), 30)

    assert all(entry >= 8 * (index // 8) for index, entry in enumerate(marked)), "the mark fell behind by more than a group"
