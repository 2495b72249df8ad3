"""The contract of channels, one suite over every kind: the rules are those of `holdfast.channel.channel`, cited by number.

A suite for what all kinds have in common; where one differs by nature (memory does not outlive its process) the test says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

import pytest

from holdfast.channel.channel import COMMAND_BYTES_MAX, Buffer, Channel, Entry, Pressure, Purpose, Receipt
from holdfast.errors import Blocked, Closed, HoldfastError, NoSuchPosition, TooLarge
from tests.contract.channels import KIB, ROOMY, TIGHT, Kind, Size

# More than any kind needs on a busy machine; a test that waits so long has failed.
PATIENCE_S = 30.0


@asynccontextmanager
async def opened(kind: Kind, size: Size = ROOMY) -> AsyncIterator[Channel]:
    channel = await kind.open(size)
    try:
        yield channel
    finally:
        await channel.close()


def commands(count: int, start: int = 1) -> list[bytes]:
    return [b"command %d" % number for number in range(start, start + count)]


async def append_all(channel: Channel, wanted: list[bytes]) -> list[Receipt]:
    return await asyncio.wait_for(asyncio.gather(*[channel.append(command) for command in wanted]), PATIENCE_S)


async def read_up_to(channel: Channel, start: int, end: int) -> list[Entry]:
    """Entries from `start` to `end`, the last included."""
    found: list[Entry] = []
    async with asyncio.timeout(PATIENCE_S), reading(channel, start) as runs:
        while not found or found[-1].number < end:
            found.extend(await anext(runs))
    return [Entry(number, bytes(command)) for number, command in found if number <= end]


def reading(channel: Channel, start: int) -> Any:
    """A reader that is ended in good order when the block is left."""
    return aclosing(cast(Any, channel.read(start)))


async def fill(channel: Channel, purpose: Purpose, command: bytes) -> int:
    """Appends until it is Blocked; how many were taken."""
    taken = 0
    while True:
        try:
            await asyncio.wait_for(channel.append(command, purpose), PATIENCE_S)
        except Blocked:
            return taken
        taken += 1


# --- rule 1: numbered from 1, without a gap, in the order of the calls ---------------------------------------------------


async def test_rule_1_many_appends_at_once_are_numbered_from_1_in_the_order_of_the_calls(kind: Kind) -> None:
    async with opened(kind) as channel:
        wanted = commands(300)

        receipts = await append_all(channel, wanted)

        assert [receipt.entry for receipt in receipts] == list(range(1, 301))
        assert await read_up_to(channel, 1, 300) == [Entry(number, command) for number, command in enumerate(wanted, 1)]


async def test_rule_1_appends_of_tasks_that_take_turns_stand_in_the_order_of_their_calls(kind: Kind) -> None:
    async with opened(kind) as channel:
        called: list[bytes] = []

        async def producer(name: int) -> None:
            for number in range(10):
                command = b"producer %d, command %d" % (name, number)
                called.append(command)
                await channel.append(command)

        await asyncio.wait_for(asyncio.gather(*[producer(name) for name in range(20)]), PATIENCE_S)

        assert [command for _, command in await read_up_to(channel, 1, 200)] == called


async def test_rule_1_a_refused_append_takes_no_number(kind: Kind) -> None:
    async with opened(kind) as channel:
        before = channel.append(b"before")
        refused = channel.append(bytes(COMMAND_BYTES_MAX + 1))
        after = channel.append(b"after")

        with pytest.raises(TooLarge):
            await refused

        assert ((await before).entry, (await after).entry) == (1, 2)


# --- rule 2: answered when durable, not before ---------------------------------------------------------------------------


async def test_rule_2_an_append_is_not_answered_at_once_and_is_durable_when_it_is(kind: Kind) -> None:
    async with opened(kind) as channel:
        assert (channel.first, channel.durable) == (1, 0)

        future = channel.append(b"one")

        assert not future.done()
        assert channel.durable == 0
        receipt = await asyncio.wait_for(future, PATIENCE_S)
        assert receipt == Receipt(entry=1, copies=1, is_synced=kind.is_synced)
        assert channel.durable >= receipt.entry


async def test_rule_2_receipts_are_answered_in_the_order_of_their_entries(kind: Kind) -> None:
    async with opened(kind) as channel:
        answered: list[int] = []
        futures = [channel.append(command) for command in commands(50)]
        for future in futures:
            future.add_done_callback(lambda done: answered.append(done.result().entry))

        await asyncio.wait_for(asyncio.gather(*futures), PATIENCE_S)
        await asyncio.sleep(0)  # callbacks of the last one run in the turn after it

        assert answered == list(range(1, 51))


async def test_rule_2_a_caller_who_stops_waiting_changes_nothing_for_the_others(kind: Kind) -> None:
    async with opened(kind) as channel:
        futures = [channel.append(command) for command in commands(3)]

        futures[1].cancel()

        assert [(await futures[0]).entry, (await futures[2]).entry] == [1, 3]
        assert [command for _, command in await read_up_to(channel, 1, 3)] == commands(3)


async def test_an_append_of_the_largest_command_is_taken_and_one_byte_more_is_too_large(kind: Kind) -> None:
    async with opened(kind) as channel:
        largest = bytes(range(256)) * (COMMAND_BYTES_MAX // 256)

        receipt = await asyncio.wait_for(channel.append(largest), PATIENCE_S)

        assert await channel.fetch([receipt.entry]) == [largest]
        with pytest.raises(TooLarge):
            await channel.append(largest + b"x")
        assert channel.durable == receipt.entry


async def test_an_empty_command_and_a_view_are_commands_like_others(kind: Kind) -> None:
    async with opened(kind) as channel:
        await append_all(channel, [b"", b"one"])
        await channel.append(memoryview(b"..view..")[2:6])

        found = await read_up_to(channel, 1, 3)

        assert [command for _, command in found] == [b"", b"one", b"view"]


# --- rule 3: no reader passes the durable mark ---------------------------------------------------------------------------


async def test_rule_3_no_reader_sees_an_entry_past_the_durable_mark(kind: Kind) -> None:
    async with opened(kind) as channel:
        seen: list[tuple[int, int]] = []

        async def watch() -> None:
            async with reading(channel, 1) as runs:
                while not seen or seen[-1][0] < 400:
                    run = await anext(runs)
                    seen.append((run[-1].number, channel.durable))

        watching = asyncio.create_task(watch())
        for start in range(1, 400, 20):
            await append_all(channel, commands(20, start))

        await asyncio.wait_for(watching, PATIENCE_S)
        assert all(number <= durable for number, durable in seen)


# --- rule 4: read from any number, then wait for more --------------------------------------------------------------------


async def test_rule_4_reading_from_any_start_gives_every_entry_from_there_on(kind: Kind) -> None:
    async with opened(kind) as channel:
        wanted = commands(60)
        await append_all(channel, wanted)

        for start in range(1, 61, 7):
            found = await read_up_to(channel, start, 60)

            assert found == [Entry(number, wanted[number - 1]) for number in range(start, 61)]


async def test_rule_4_a_reader_that_has_everything_waits_and_is_handed_what_comes(kind: Kind) -> None:
    async with opened(kind) as channel, reading(channel, 1) as runs:
        await channel.append(b"one")
        assert [entry.number for entry in await asyncio.wait_for(anext(runs), PATIENCE_S)] == [1]

        waiting = asyncio.ensure_future(anext(runs))
        await asyncio.sleep(0)
        assert not waiting.done()
        await channel.append(b"two")

        assert [bytes(entry.command) for entry in await asyncio.wait_for(waiting, PATIENCE_S)] == [b"two"]


async def test_rule_4_a_reader_may_start_at_an_entry_that_is_not_there_yet(kind: Kind) -> None:
    async with opened(kind) as channel:
        await append_all(channel, commands(2))
        reader = asyncio.create_task(read_up_to(channel, 5, 6))

        await append_all(channel, commands(5, 3))

        assert [entry.number for entry in await reader] == [5, 6]


async def test_rule_4_readers_do_not_take_entries_from_each_other(kind: Kind) -> None:
    async with opened(kind) as channel:
        readers = [asyncio.create_task(read_up_to(channel, 1, 100)) for _ in range(5)]

        await append_all(channel, commands(100))

        for reader in readers:
            assert [command for _, command in await reader] == commands(100)


async def test_rule_4_a_reader_that_lags_behind_by_megabytes_gets_every_entry(kind: Kind) -> None:
    async with opened(kind) as channel, reading(channel, 1) as runs:
        wanted = [b"%d:" % number + bytes(64 * KIB) for number in range(300)]  # more than is kept in memory for readers
        await channel.append(wanted[0])
        found = list(await asyncio.wait_for(anext(runs), PATIENCE_S))

        await append_all(channel, wanted[1:])
        while len(found) < len(wanted):
            found.extend(await asyncio.wait_for(anext(runs), PATIENCE_S))

        assert [entry.number for entry in found] == list(range(1, 301))
        assert [bytes(entry.command) for entry in found] == wanted


async def test_rule_4_starting_below_the_first_entry_held_is_refused(kind: Kind) -> None:
    async with opened(kind, TIGHT) as channel:
        await _move_first(channel)

        for start in (0, 1, channel.first - 1):
            with pytest.raises(NoSuchPosition):
                await read_up_to(channel, start, channel.durable)
        assert (await read_up_to(channel, channel.first, channel.durable))[0].number == channel.first


async def _move_first(channel: Channel) -> None:
    """Appends and releases enough for `first` to move, however lazy the channel is."""
    await append_all(channel, [bytes(2 * KIB)] * 40)
    await channel.release(35)
    assert 1 < channel.first <= 35


async def test_fetching_gives_the_commands_of_any_numbers_old_and_new(kind: Kind) -> None:
    async with opened(kind) as channel:
        await append_all(channel, commands(100))

        assert await channel.fetch([]) == []
        assert [bytes(command) for command in await channel.fetch([1, 2, 50, 99, 100])] == [
            b"command %d" % number for number in (1, 2, 50, 99, 100)
        ]


async def test_fetching_what_is_not_held_is_refused(kind: Kind) -> None:
    async with opened(kind, TIGHT) as channel:
        await _move_first(channel)

        for number in (0, channel.first - 1, channel.durable + 1):
            with pytest.raises(NoSuchPosition):
                await channel.fetch([number])


# --- rule 5: release forgets a prefix, lazily, and nothing else ----------------------------------------------------------


async def test_rule_5_release_keeps_everything_that_is_not_below(kind: Kind) -> None:
    async with opened(kind, TIGHT) as channel:
        wanted = [b"%d:" % number + bytes(2 * KIB) for number in range(1, 101)]
        await append_all(channel, wanted)

        for below in (1, 30, 30, 10, 77):
            await channel.release(below)

        assert channel.first <= 77
        assert await read_up_to(channel, 77, 100) == [Entry(number, wanted[number - 1]) for number in range(77, 101)]
        assert [bytes(command) for command in await channel.fetch(range(77, 101))] == wanted[76:]


async def test_rule_5_numbers_go_on_after_everything_was_released(kind: Kind) -> None:
    async with opened(kind) as channel:
        await append_all(channel, commands(10))

        await channel.release(11)

        assert channel.first <= 11
        assert (await channel.append(b"next")).entry == 11
        assert await read_up_to(channel, 11, 11) == [Entry(11, b"next")]


async def test_rule_5_released_space_is_used_again(kind: Kind) -> None:
    """Five times the size of the channel goes through it (A3)."""
    async with opened(kind, TIGHT) as channel:
        for _ in range(50):
            receipts = await append_all(channel, [bytes(4 * KIB)] * 25)
            await channel.release(receipts[-1].entry)

        assert channel.durable == 50 * 25
        assert not channel.pressure.is_short


async def test_rule_5_a_reader_whose_next_entry_was_released_is_told(kind: Kind) -> None:
    async with opened(kind, TIGHT) as channel, reading(channel, 1) as runs:
        await channel.append(b"read before the release")
        await asyncio.wait_for(anext(runs), PATIENCE_S)
        await append_all(channel, [bytes(2 * KIB)] * 200)
        await channel.release(200)
        handed_out = 1

        with pytest.raises(NoSuchPosition):
            while True:  # what had been read ahead may come first, without a gap
                run = await asyncio.wait_for(anext(runs), PATIENCE_S)
                assert run[0].number == handed_out + 1
                handed_out = run[-1].number
                if handed_out == channel.durable:
                    raise NoSuchPosition("everything had been read ahead; nothing was left to refuse")


# --- rule 6: one snapshot, whole or not at all ---------------------------------------------------------------------------


async def test_rule_6_a_channel_without_a_snapshot_says_so(kind: Kind) -> None:
    async with opened(kind) as channel:
        assert await channel.load_snapshot() is None


async def test_rule_6_the_newest_snapshot_comes_back_in_its_chunks(kind: Kind) -> None:
    async with opened(kind) as channel:
        await append_all(channel, commands(10))
        await channel.save_snapshot(4, [b"old state"])

        await channel.save_snapshot(9, [b"new ", b"", bytes(300 * KIB), b"state"])

        snapshot = await channel.load_snapshot()
        assert snapshot is not None
        assert snapshot.at == 9
        assert [bytes(chunk) for chunk in snapshot.chunks] == [b"new ", b"", bytes(300 * KIB), b"state"]


async def test_rule_6_a_snapshot_that_fails_midway_leaves_the_one_before(kind: Kind) -> None:
    async with opened(kind) as channel:
        await append_all(channel, commands(10))
        await channel.save_snapshot(4, [b"old ", b"state"])

        with pytest.raises(RuntimeError, match="midway"):
            await channel.save_snapshot(9, _chunks_that_end_midway())

        snapshot = await channel.load_snapshot()
        assert snapshot is not None
        assert (snapshot.at, b"".join(snapshot.chunks)) == (4, b"old state")
        await channel.save_snapshot(10, [b"newer state"])
        newer = await channel.load_snapshot()
        assert newer is not None
        assert (newer.at, b"".join(newer.chunks)) == (10, b"newer state")


def _chunks_that_end_midway() -> Iterator[Buffer]:
    yield b"half a "
    yield b"new state, then"
    raise RuntimeError("midway")


async def test_rule_6_appends_go_on_around_a_snapshot_and_take_numbers_without_a_gap(kind: Kind) -> None:
    async with opened(kind) as channel:
        before = await append_all(channel, commands(5))

        appended, _ = await asyncio.gather(
            append_all(channel, commands(50, 6)), channel.save_snapshot(5, [b"state"] * 20)
        )

        assert [receipt.entry for receipt in before + appended] == list(range(1, 56))
        assert [command for _, command in await read_up_to(channel, 1, 55)] == commands(55)


async def test_rule_6_a_snapshot_outlives_the_release_of_all_it_stands_for(kind: Kind) -> None:
    async with opened(kind, TIGHT) as channel:
        await append_all(channel, [bytes(2 * KIB)] * 20)
        await channel.save_snapshot(20, [b"all of it"])

        for _ in range(30):
            receipts = await append_all(channel, [bytes(2 * KIB)] * 20)
            await channel.release(receipts[-1].entry)

        snapshot = await channel.load_snapshot()
        assert snapshot is not None
        assert (snapshot.at, b"".join(snapshot.chunks)) == (20, b"all of it")


async def test_rule_6_a_snapshot_of_entries_that_are_not_durable_is_refused(kind: Kind) -> None:
    async with opened(kind) as channel:
        await append_all(channel, commands(3))

        with pytest.raises(NoSuchPosition):
            await channel.save_snapshot(4, [b"the future"])

        assert await channel.load_snapshot() is None


# --- rule 7: room of its own for upkeep ----------------------------------------------------------------------------------


async def test_rule_7_upkeep_has_room_when_events_are_blocked(kind: Kind) -> None:
    async with opened(kind, TIGHT) as channel:
        await fill(channel, Purpose.EVENTS, bytes(2 * KIB))

        taken = 0
        while taken * KIB < TIGHT.upkeep_bytes // 2:
            await asyncio.wait_for(channel.append(bytes(KIB), Purpose.UPKEEP), PATIENCE_S)
            taken += 1

        with pytest.raises(Blocked):
            await channel.append(bytes(2 * KIB), Purpose.EVENTS)


async def test_rule_7_a_shortage_is_told_before_events_are_blocked_and_the_stated_reserve_is_taken(kind: Kind) -> None:
    """The event that reports the shortage is taken, too (A2)."""
    async with opened(kind, TIGHT) as channel:
        told: list[Pressure] = []
        channel.watch_pressure(told.append)
        assert not channel.pressure.is_short

        while not channel.pressure.is_short:
            await asyncio.wait_for(channel.append(bytes(KIB)), PATIENCE_S)
        taken = await fill(channel, Purpose.EVENTS, bytes(KIB))
        await asyncio.sleep(0)

        assert [pressure.is_short for pressure in told] == [True]
        assert told[0].reason
        assert taken * KIB >= TIGHT.reserve_bytes - 2 * KIB  # the command that made it short may have come out of the reserve
        assert channel.pressure.events_reserve_bytes < TIGHT.segment_bytes


async def test_rule_7_release_ends_a_shortage_and_events_are_taken_again(kind: Kind) -> None:
    async with opened(kind, TIGHT) as channel:
        told: list[bool] = []
        channel.watch_pressure(lambda pressure: told.append(pressure.is_short))
        await fill(channel, Purpose.EVENTS, bytes(2 * KIB))
        newest = channel.durable

        await channel.release(newest)

        receipt = await asyncio.wait_for(channel.append(bytes(2 * KIB)), PATIENCE_S)
        assert receipt.entry == newest + 1
        assert not channel.pressure.is_short
        assert told == [True, False]


# --- rule 8: after close everything raises Closed, and nobody is left waiting --------------------------------------------


async def test_rule_8_after_close_everything_raises_closed(kind: Kind) -> None:
    channel = await kind.open()
    await append_all(channel, commands(3))

    await channel.close()
    await channel.close()

    with pytest.raises(Closed):
        await channel.append(b"late")
    with pytest.raises(Closed):
        await channel.fetch([1])
    with pytest.raises(Closed):
        await channel.release(2)
    with pytest.raises(Closed):
        await channel.save_snapshot(1, [b"state"])
    with pytest.raises(Closed):
        await channel.load_snapshot()
    with pytest.raises(Closed):
        await read_up_to(channel, 1, 3)


async def test_rule_8_close_answers_every_append_that_waits(kind: Kind) -> None:
    channel = await kind.open()
    futures = [channel.append(command) for command in commands(500)]

    await channel.close()

    answers = await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), PATIENCE_S)
    entries = [answer.entry for answer in answers if isinstance(answer, Receipt)]
    assert entries == list(range(1, len(entries) + 1))
    assert all(isinstance(answer, Receipt | HoldfastError) for answer in answers)


async def test_rule_8_close_ends_a_reader_that_waits(kind: Kind) -> None:
    channel = await kind.open()
    await channel.append(b"one")
    async with reading(channel, 1) as runs:
        await asyncio.wait_for(anext(runs), PATIENCE_S)
        waiting = asyncio.ensure_future(anext(runs))
        await asyncio.sleep(0)

        await channel.close()

        with pytest.raises(Closed):
            await asyncio.wait_for(waiting, PATIENCE_S)


# --- what lasts ----------------------------------------------------------------------------------------------------------


async def test_a_channel_that_is_opened_again_has_everything_it_had(lasting_kind: Kind) -> None:
    async with opened(lasting_kind, TIGHT) as channel:
        await append_all(channel, [b"%d:" % number + bytes(2 * KIB) for number in range(1, 61)])
        await channel.save_snapshot(40, [b"state ", b"as of 40"])
        await channel.release(41)
        first = channel.first

    async with opened(lasting_kind, TIGHT) as channel:
        assert (channel.first, channel.durable) == (first, 60)
        assert [number for number, _ in await read_up_to(channel, 41, 60)] == list(range(41, 61))
        assert [bytes(command)[:3] for command in await channel.fetch([41, 60])] == [b"41:", b"60:"]
        snapshot = await channel.load_snapshot()
        assert snapshot is not None
        assert (snapshot.at, [bytes(chunk) for chunk in snapshot.chunks]) == (40, [b"state ", b"as of 40"])
        assert (await channel.append(b"next")).entry == 61


async def test_a_snapshot_that_failed_midway_is_not_there_after_opening_again(lasting_kind: Kind) -> None:
    async with opened(lasting_kind) as channel:
        await append_all(channel, commands(10))
        await channel.save_snapshot(4, [b"old state"])
        with pytest.raises(RuntimeError, match="midway"):
            await channel.save_snapshot(9, _chunks_that_end_midway())

    async with opened(lasting_kind) as channel:
        snapshot = await channel.load_snapshot()
        assert snapshot is not None
        assert (snapshot.at, b"".join(snapshot.chunks)) == (4, b"old state")


async def test_a_channel_that_is_opened_full_still_blocks_events_and_takes_upkeep(lasting_kind: Kind) -> None:
    async with opened(lasting_kind, TIGHT) as channel:
        await fill(channel, Purpose.EVENTS, bytes(2 * KIB))

    async with opened(lasting_kind, TIGHT) as channel:
        assert channel.pressure.is_short
        with pytest.raises(Blocked):
            await channel.append(bytes(2 * KIB))
        await asyncio.wait_for(channel.append(bytes(2 * KIB), Purpose.UPKEEP), PATIENCE_S)
