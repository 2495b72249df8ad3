"""Fragments of large events in the journal's group commit: they come behind everything else, and few at a time (B13)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from holdfast.channel.channel import Purpose, Receipt
from holdfast.channel.journal.group_commit import FRAGMENTS_BYTES_MAX
from holdfast.channel.journal.journal_channel import JournalChannel
from holdfast.channel.journal.run import Draft, Outcome
from holdfast.channel.journal.settings import JournalSettings
from holdfast.errors import Closed, HoldfastError
from holdfast.simulation.simulated_disk import SimulatedDisk
from tests.waiting import until

FOLDER = Path("/journal")
MIB = 1 << 20
SETTINGS = JournalSettings(
    segment_bytes=4 * MIB, initial_bytes=16 * MIB, size_bytes=32 * MIB, reserve_bytes=MIB, upkeep_bytes=4 * MIB
)
FRAGMENT = b"f" * (100 << 10)


async def test_what_is_appended_after_fragments_overtakes_them_and_they_keep_their_own_order_rule_1() -> None:
    order: list[str] = []
    async with await JournalChannel.open(FOLDER, SETTINGS, disk=SimulatedDisk()) as channel:
        fragments = [channel.append(FRAGMENT, Purpose.FRAGMENTS) for _ in range(10)]
        small = [channel.append(b"small", purpose) for purpose in (Purpose.EVENTS, Purpose.UPKEEP)]
        for number, answer in enumerate(fragments):
            answer.add_done_callback(lambda _, number=number: order.append(f"fragment {number}"))  # type: ignore[misc]

        receipts = await asyncio.gather(*small)
        assert not fragments[-1].done(), "small commands do not wait for all fragments"
        entries = [receipt.entry for receipt in await asyncio.gather(*fragments)]

    assert [receipt.entry for receipt in receipts] == [1, 2]
    assert entries == sorted(entries) and entries[0] == 3
    assert order == [f"fragment {number}" for number in range(10)]


async def test_a_group_takes_a_few_fragments_only() -> None:
    done: list[int] = []
    async with await JournalChannel.open(FOLDER, SETTINGS, disk=SimulatedDisk()) as channel:
        groups: list[int] = []
        commit = channel._journal.commit

        def counting(drafts: Sequence[Draft], is_marked: bool = True) -> list[Outcome]:
            groups.append(sum(len(draft.payload) for draft in drafts))
            return commit(drafts, is_marked=is_marked)

        channel._journal.commit = counting  # type: ignore[method-assign]
        receipts = await asyncio.gather(*(channel.append(FRAGMENT, Purpose.FRAGMENTS) for _ in range(12)))
        done = [receipt.entry for receipt in receipts]

    assert done == list(range(1, 13))
    assert len(groups) == 4
    assert max(groups) < FRAGMENTS_BYTES_MAX + len(FRAGMENT)


async def test_fragments_are_not_starved_by_a_flood_of_others() -> None:
    async with await JournalChannel.open(FOLDER, SETTINGS, disk=SimulatedDisk()) as channel:
        flood = [channel.append(b"x" * (1 << 16)) for _ in range(100)]
        fragment = channel.append(FRAGMENT, Purpose.FRAGMENTS)
        await fragment
        assert not flood[-1].done()
        await asyncio.gather(*flood)


async def test_fragments_that_wait_when_the_journal_is_closed_are_answered_rule_8() -> None:
    told: list[Receipt | HoldfastError] = []
    channel = await JournalChannel.open(FOLDER, SETTINGS, disk=SimulatedDisk())
    for _ in range(10):
        channel.submit(FRAGMENT, Purpose.FRAGMENTS, told.append)
    await channel.close()
    await until(lambda: len(told) == 10, "all are answered")

    assert isinstance(told[-1], Closed)
