"""Fragments of large events, in every kind of channel (channel rules 1 and 7)."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.channel.channel import Purpose
from holdfast.errors import Blocked
from tests.contract.channels import KIB, PATIENCE_S, TIGHT, Kind, fill, opened


async def test_fragments_draw_on_the_room_of_events_and_leave_that_of_upkeep_alone_rule_7(kind: Kind) -> None:
    async with opened(kind, TIGHT) as channel:
        await fill(channel, Purpose.EVENTS, bytes(2 * KIB))
        with pytest.raises(Blocked):
            await asyncio.wait_for(channel.append(bytes(2 * KIB), Purpose.FRAGMENTS), PATIENCE_S)
        await asyncio.wait_for(channel.append(bytes(KIB), Purpose.UPKEEP), PATIENCE_S)


async def test_fragments_among_themselves_keep_their_order_and_are_there_to_be_fetched_rule_1(kind: Kind) -> None:
    async with opened(kind) as channel:
        receipts = await asyncio.gather(*(channel.append(b"%d" % number, Purpose.FRAGMENTS) for number in range(20)))
        entries = [receipt.entry for receipt in receipts]

        assert entries == sorted(entries)
        assert [bytes(each) for each in await channel.fetch(entries)] == [b"%d" % number for number in range(20)]
