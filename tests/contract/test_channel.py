"""The contract of channels, one suite over every kind: the rules are those of `holdfast.channel.channel`, cited by number.

Here: appending, closing. Beside it: `test_channel_reading`, `test_channel_space` (what is released, what is blocked) and
`test_channel_lasting` (snapshots, opening again). Where a kind differs by nature (memory does not outlive its process)
the test says so.
"""

from __future__ import annotations

import asyncio

import pytest

from holdfast.channel.channel import COMMAND_BYTES_MAX, Entry, Purpose, Receipt
from holdfast.errors import Closed, HoldfastError, TooLarge
from tests.contract.channels import PATIENCE_S, Kind, append_all, commands, opened, read_up_to, reading
from tests.waiting import turn_loop

# --- channel rule 1: numbered from 1, without a gap, in the order of the calls ------------------------------------------------


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


# --- channel rule 2: answered when durable, not before ------------------------------------------------------------------------


async def test_rule_2_an_append_is_not_answered_at_once_and_is_durable_when_it_is(kind: Kind) -> None:
    async with opened(kind) as channel:
        assert (channel.first, channel.durable) == (1, 0)

        future = channel.append(b"one")

        assert not future.done()
        assert channel.durable == 0
        receipt = await asyncio.wait_for(future, PATIENCE_S)
        assert receipt == Receipt(entry=1, copies=kind.copies, is_synced=kind.is_synced)
        assert channel.durable >= receipt.entry


async def test_rule_2_receipts_are_answered_in_the_order_of_their_entries(kind: Kind) -> None:
    async with opened(kind) as channel:
        answered: list[int] = []
        futures = [channel.append(command) for command in commands(50)]
        for future in futures:
            future.add_done_callback(lambda done: answered.append(done.result().entry))

        await asyncio.wait_for(asyncio.gather(*futures), PATIENCE_S)
        await turn_loop()  # callbacks of the last one run in the turn after it

        assert answered == list(range(1, 51))


async def test_rule_2_a_caller_who_stops_waiting_changes_nothing_for_the_others(kind: Kind) -> None:
    """What was cancelled is in the channel or not, as it was on its way or not; the others keep order and receipts."""
    async with opened(kind) as channel:
        futures = [channel.append(command) for command in commands(3)]

        futures[1].cancel()

        first, last = await futures[0], await futures[2]
        found = [command for _, command in await read_up_to(channel, 1, last.entry)]
        assert first.entry == 1
        assert found in (commands(3), [b"command 1", b"command 3"])


async def test_an_append_of_the_largest_command_is_taken_and_one_byte_more_is_too_large(kind: Kind) -> None:
    async with opened(kind) as channel:
        largest = bytes(range(256)) * (COMMAND_BYTES_MAX // 256)

        receipt = await asyncio.wait_for(channel.append(largest), PATIENCE_S)

        assert await channel.fetch([receipt.entry]) == [largest]
        with pytest.raises(TooLarge):
            await channel.append(largest + b"x")
        assert channel.durable == receipt.entry


async def test_the_bytes_of_commands_that_were_appended_are_counted(kind: Kind) -> None:
    async with opened(kind) as channel:
        await append_all(channel, [b"12345", b"", b"678"])
        with pytest.raises(TooLarge):
            await channel.append(bytes(COMMAND_BYTES_MAX + 1))

        assert channel.bytes_appended == 8


async def test_an_empty_command_and_a_view_are_commands_like_others(kind: Kind) -> None:
    async with opened(kind) as channel:
        await append_all(channel, [b"", b"one"])
        await channel.append(memoryview(b"..view..")[2:6])

        found = await read_up_to(channel, 1, 3)

        assert [command for _, command in found] == [b"", b"one", b"view"]


async def test_rule_2_whoever_submits_is_told_once_when_it_is_durable_and_never_from_within(kind: Kind) -> None:
    async with opened(kind) as channel:
        told: asyncio.Queue[tuple[Receipt | HoldfastError, int]] = asyncio.Queue()

        for command in commands(5):
            channel.submit(command, Purpose.EVENTS, lambda outcome: told.put_nowait((outcome, channel.durable)))
        assert told.empty()
        heard = [await asyncio.wait_for(told.get(), PATIENCE_S) for _ in range(5)]

        assert [outcome.entry for outcome, _ in heard if isinstance(outcome, Receipt)] == [1, 2, 3, 4, 5]
        assert all(durable >= number for number, (_, durable) in enumerate(heard, 1))
        assert told.empty()


async def test_rule_2_whoever_submits_what_is_refused_is_told_why_and_never_from_within(kind: Kind) -> None:
    async with opened(kind) as channel:
        told: asyncio.Queue[Receipt | HoldfastError] = asyncio.Queue()

        channel.submit(bytes(COMMAND_BYTES_MAX + 1), Purpose.EVENTS, told.put_nowait)
        assert told.empty()

        assert isinstance(await asyncio.wait_for(told.get(), PATIENCE_S), TooLarge)
        assert (await channel.append(b"next")).entry == 1


async def test_what_is_recent_is_what_a_fetch_gives_or_nothing(kind: Kind) -> None:
    async with opened(kind) as channel:
        await append_all(channel, commands(20))
        await read_up_to(channel, 1, 20)

        recent = channel.recent([3, 7, 20], 1 << 20)

        assert recent is not None
        assert recent == await channel.fetch([3, 7, 20])
        assert channel.recent([3, 7, 20], 1) == recent[:1]
        assert channel.recent([3, 21], 1 << 20) is None


# --- channel rule 3: no reader passes the durable mark ------------------------------------------------------------------------


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


# --- channel rule 8: after close everything raises Closed, and nobody is left waiting -----------------------------------------


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
        await turn_loop()

        await channel.close()

        with pytest.raises(Closed):
            await asyncio.wait_for(waiting, PATIENCE_S)
