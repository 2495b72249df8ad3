"""The contract of channels: reading from any number, following, and fetching single entries."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from holdfast.channel.channel import Channel, Entry
from holdfast.channel.journal.journal_channel import JournalChannel
from holdfast.errors import NoSuchPosition
from tests.contract.channels import KIB, PATIENCE_S, TIGHT, Kind, append_all, commands, opened, read_up_to, reading
from tests.waiting import turn_loop, until

# --- channel rule 4: read from any number, then wait for more -----------------------------------------------------------------


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
        await turn_loop()
        assert not waiting.done()
        await channel.append(b"two")

        assert [bytes(entry.command) for entry in await asyncio.wait_for(waiting, PATIENCE_S)] == [b"two"]


async def test_rule_4_a_reader_may_start_at_an_entry_that_is_not_there_yet(kind: Kind) -> None:
    async with opened(kind) as channel:
        await append_all(channel, commands(2))
        reader = asyncio.create_task(read_up_to(channel, 5, 6))

        await append_all(channel, commands(5, 3))

        assert [entry.number for entry in await reader] == [5, 6]


async def test_rule_4_a_reader_that_is_cancelled_ends_whether_it_waits_or_reads(kind: Kind) -> None:
    async with opened(kind) as channel:
        await append_all(channel, commands(3))

        async def follow(start: int) -> None:
            async for _ in channel.read(start):
                pass

        for start in (1, 4):
            for turns in (1, 5, 50):
                reader = asyncio.create_task(follow(start))
                await turn_loop(turns)
                reader.cancel()

                await asyncio.wait([reader], timeout=PATIENCE_S)

                assert reader.cancelled()


async def test_rule_4_readers_do_not_take_entries_from_each_other(kind: Kind) -> None:
    async with opened(kind) as channel:
        readers = [asyncio.create_task(read_up_to(channel, 1, 100)) for _ in range(5)]

        await append_all(channel, commands(100))

        for reader in readers:
            assert [command for _, command in await reader] == commands(100)


@pytest.mark.parametrize(
    "taken", [lambda run: True, lambda run: False, lambda run: run[0].number % 3 == 0], ids=["all", "none", "some"]
)
async def test_rule_4_what_a_reader_takes_at_once_and_what_it_does_not_is_each_entry_once_in_order(
    kind: Kind, taken: Callable[[Sequence[Entry]], bool]
) -> None:
    async with opened(kind) as channel:
        seen: list[Entry] = []

        def at_once(run: Sequence[Entry]) -> bool:
            assert run[-1].number <= channel.durable
            if is_taken := taken(run):
                seen.extend(run)
            return is_taken

        async def follow() -> None:
            async for run in channel.read(1, at_once):
                seen.extend(run)

        following = asyncio.create_task(follow())
        wanted = commands(700)
        for begin, end in itertools.pairwise((0, 1, 2, 5, 6, 100, 101, 500, 699, 700)):
            await append_all(channel, wanted[begin:end])
            await turn_loop()
        await until(lambda: len(seen) == 700, "everything is handed out")
        following.cancel()

        assert seen == [Entry(number, command) for number, command in enumerate(wanted, 1)]


async def test_rule_4_what_fails_at_once_fails_in_the_reader_and_costs_no_receipt(tmp_path: Path) -> None:
    async with await JournalChannel.open(tmp_path) as channel:

        def at_once(run: Sequence[Entry]) -> bool:
            raise RuntimeError("a fault of the reader's")

        async def follow() -> None:
            async for _ in channel.read(1, at_once):
                pass

        following = asyncio.create_task(follow())
        await turn_loop()

        assert [receipt.entry for receipt in await append_all(channel, commands(3))] == [1, 2, 3]
        with pytest.raises(RuntimeError, match="fault of the reader's"):
            await following


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
            with pytest.raises(NoSuchPosition, match="from .*snapshot" if start else "entr"):  # it says where to start over
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

        for number in (0, channel.durable + 1):
            with pytest.raises(NoSuchPosition):
                await channel.fetch([number])


async def test_fetching_what_was_released_is_refused_or_gives_the_right_command(kind: Kind) -> None:
    """A channel forgets lazily (channel rule 5): what it still has in memory it may hand out."""
    async with opened(kind, TIGHT) as channel:
        await _move_first(channel)

        for number in range(1, channel.first):
            try:
                assert await channel.fetch([number]) == [bytes(2 * KIB)]
            except NoSuchPosition as refusal:
                assert str(number) in str(refusal)
