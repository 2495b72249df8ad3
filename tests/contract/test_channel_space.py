"""The contract of channels: what release forgets, what it frees, and who is let in when space is short."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.channel.channel import Entry, Pressure, Purpose
from holdfast.errors import Blocked, NoSuchPosition
from tests.contract.channels import KIB, PATIENCE_S, TIGHT, Kind, append_all, commands, fill, opened, read_up_to, reading
from tests.waiting import until

# --- channel rule 5: release forgets a prefix, lazily, and nothing else -------------------------------------------------------


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


async def test_rule_5_the_oldest_stretch_is_complete_and_holds_the_oldest_entries(lasting_kind: Kind) -> None:
    """A channel in memory frees entries one by one and has no stretches."""
    async with opened(lasting_kind, TIGHT) as channel:
        await append_all(channel, [bytes(2 * KIB)] * 40)
        for _ in range(3):
            stretch = channel.oldest_stretch()

            assert stretch is not None
            assert channel.first == stretch.first <= stretch.last < 40
            assert TIGHT.segment_bytes // 2 <= stretch.bytes <= 2 * TIGHT.segment_bytes
            assert stretch.bytes >= (stretch.last - stretch.first + 1) * 2 * KIB
            await channel.release(stretch.last + 1)
            assert channel.first == stretch.last + 1


async def test_rule_5_stretches_are_known_again_after_opening_from_a_snapshot(lasting_kind: Kind) -> None:
    async with opened(lasting_kind, TIGHT) as channel:
        await append_all(channel, [bytes(2 * KIB)] * 40)
        stretch = channel.oldest_stretch()
        await channel.save_snapshot(40, [b"state"])

    async with opened(lasting_kind, TIGHT) as channel:
        await channel.load_snapshot()

        assert stretch is not None
        assert channel.oldest_stretch() == stretch


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


# --- channel rule 7: room of its own for upkeep -------------------------------------------------------------------------------


async def test_rule_7_upkeep_has_room_when_events_are_blocked(kind: Kind) -> None:
    async with opened(kind, TIGHT) as channel:
        await fill(channel, Purpose.EVENTS, bytes(2 * KIB))

        for _ in range(TIGHT.upkeep_bytes // KIB):
            await asyncio.wait_for(channel.append(bytes(KIB), Purpose.UPKEEP), PATIENCE_S)
            await fill(channel, Purpose.EVENTS, bytes(2 * KIB))  # events that press on must not take what is upkeep's

        with pytest.raises(Blocked):
            await channel.append(bytes(2 * KIB), Purpose.EVENTS)


async def test_rule_7_a_shortage_is_told_before_events_are_blocked_and_the_stated_reserve_is_taken(kind: Kind) -> None:
    """The event that reports the shortage is taken, too (A2)."""
    async with opened(kind, TIGHT) as channel:
        told: list[Pressure] = []
        channel.watch_pressure(told.append)

        while not channel.pressure.is_short:
            await asyncio.wait_for(channel.append(bytes(KIB)), PATIENCE_S)
        taken = await fill(channel, Purpose.EVENTS, bytes(KIB))
        await until(lambda: told, "the shortage is told")

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


async def test_rule_7_what_is_used_of_the_size_is_told(kind: Kind) -> None:
    async with opened(kind, TIGHT) as channel:
        before = channel.pressure

        for _ in range(4):
            await asyncio.wait_for(channel.append(bytes(2 * KIB)), PATIENCE_S)

        after = channel.pressure
        assert 0 <= before.used_bytes < before.used_bytes + 8 * KIB <= after.used_bytes < after.size_bytes
        assert after.size_bytes == before.size_bytes
        assert after.ordinary_bytes <= after.size_bytes - TIGHT.reserve_bytes - TIGHT.upkeep_bytes


async def test_rule_7_space_is_short_when_what_is_not_reserved_is_used(kind: Kind) -> None:
    async with opened(kind, TIGHT) as channel:
        while not channel.pressure.is_short:
            used = channel.pressure.used_bytes
            await asyncio.wait_for(channel.append(bytes(KIB)), PATIENCE_S)

        assert 0.8 * channel.pressure.ordinary_bytes < used <= channel.pressure.ordinary_bytes
