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


async def test_an_event_overtakes_fragments_that_wait_rule_1(lasting_kind: Kind) -> None:
    async with opened(lasting_kind) as channel:
        fragments = [channel.append(bytes(512 * KIB), Purpose.FRAGMENTS) for _ in range(20)]
        event = channel.append(b"an event", Purpose.EVENTS)

        receipt = await asyncio.wait_for(event, PATIENCE_S)

        assert receipt.entry <= 5
        entries = [each.entry for each in await asyncio.wait_for(asyncio.gather(*fragments), PATIENCE_S)]
        assert entries == sorted(entries)
        assert max(entries) == 21


async def test_fragments_go_on_while_events_press_rule_1(lasting_kind: Kind) -> None:
    async with opened(lasting_kind) as channel:
        fragment = channel.append(bytes(256 * KIB), Purpose.FRAGMENTS)
        events = [channel.append(bytes(64 * KIB)) for _ in range(200)]

        receipt = await asyncio.wait_for(fragment, PATIENCE_S)

        assert receipt.entry < 200
        await asyncio.wait_for(asyncio.gather(*events), PATIENCE_S)
