"""The contract of channels: snapshots, whole or not at all, and what is there when a channel is opened again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from holdfast.channel.channel import Buffer, Purpose
from holdfast.errors import NoSuchPosition
from tests.contract.channels import (
    KIB,
    PATIENCE_S,
    TIGHT,
    Kind,
    OnJetStream,
    OnJournal,
    append_all,
    commands,
    fill,
    opened,
    read_up_to,
)

# --- channel rule 6: one snapshot, whole or not at all ------------------------------------------------------------------------


async def test_rule_6_a_channel_without_a_snapshot_says_so(kind: Kind) -> None:
    async with opened(kind) as channel:
        assert await channel.load_snapshot() is None


async def test_rule_6_the_newest_snapshot_comes_back_in_its_chunks(kind: Kind) -> None:
    async with opened(kind) as channel:
        await append_all(channel, commands(10))
        await channel.save_snapshot(4, [b"old state"])

        await channel.save_snapshot(9, [b"new ", b"", bytes(3000 * KIB), b"state"])

        snapshot = await channel.load_snapshot()
        assert snapshot is not None
        assert snapshot.at == 9
        assert [bytes(chunk) for chunk in snapshot.chunks] == [b"new ", b"", bytes(3000 * KIB), b"state"]


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

        appended, _ = await asyncio.gather(append_all(channel, commands(50, 6)), channel.save_snapshot(5, [b"state"] * 20))

        assert [receipt.entry for receipt in before + appended] == list(range(1, 56))
        assert [command for _, command in await read_up_to(channel, 1, 55)] == commands(55)


async def test_rule_6_a_snapshot_outlives_the_release_of_all_it_stands_for(kind: Kind) -> None:
    async with opened(kind, TIGHT) as channel:
        await append_all(channel, [bytes(2 * KIB)] * 20)
        await channel.save_snapshot(20, [b"all of it"])

        for _ in range(10):
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


async def test_rule_6_a_late_snapshot_with_an_older_entry_is_refused_and_the_newest_stays(kind: Kind) -> None:
    """Entries up to the newest one may be released: with an older one, replay would be impossible."""
    async with opened(kind) as channel:
        await append_all(channel, commands(10))
        await channel.save_snapshot(9, [b"new state"])

        with pytest.raises(NoSuchPosition, match="the newest is as of entry 9"):
            await channel.save_snapshot(4, [b"late"])

        await channel.save_snapshot(9, [b"the same state again"])
        snapshot = await channel.load_snapshot()
        assert snapshot is not None
        assert (snapshot.at, b"".join(snapshot.chunks)) == (9, b"the same state again")


# --- what lasts -------------------------------------------------------------------------------------------------------


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
        taken = await fill(channel, Purpose.EVENTS, bytes(2 * KIB))  # a few, where fullness is estimated until the next opening

        assert taken * 2 * KIB < TIGHT.size_bytes // 8
        await asyncio.wait_for(channel.append(bytes(2 * KIB), Purpose.UPKEEP), PATIENCE_S)


# --- who it is --------------------------------------------------------------------------------------------------------


async def test_a_channel_has_an_id_that_it_keeps_and_no_other_has(lasting_kind: Kind) -> None:
    async with opened(lasting_kind) as channel, opened(_another(lasting_kind)) as another:
        first = channel.id
        assert first and another.id != first
    async with opened(lasting_kind) as channel:
        assert channel.id == first


def _another(kind: Kind) -> Kind:
    if isinstance(kind, OnJournal):
        return OnJournal(kind.folder.parent / "other")
    assert isinstance(kind, OnJetStream)
    return OnJetStream(kind.servers)
