"""A recipient says how far its program is, with what it says anyway; and asks for events that come one at a time (rule 5)."""

from __future__ import annotations

import asyncio
import contextlib
from array import array
from typing import Any, cast

import pytest

from holdfast.client.receiving.credit.receive_credit import ReceiveCredit
from holdfast.client.receiving.receive_buffer import ReceiveBuffer
from holdfast.client.receiving.received_event import ReceivedSlice
from holdfast.client.receiving.verdict_outbox import SETTLES_MAX
from holdfast.errors import TimedOut
from holdfast.event import batch
from holdfast.event.batch import Batch
from holdfast.event.event import Head, encode_head
from holdfast.event.position import Ranges
from holdfast.wire.frame import Attach, Credit, Settle
from tests.scripted_server import ScriptedServer
from tests.unit.client.receiving.test_receiver import BATCH, ranges, receiving


async def test_credit_and_verdicts_say_how_far_the_program_is_and_attaching_again_says_what_it_was_not_handed() -> None:
    """Rule 5. No frame is sent for it."""
    server = ScriptedServer()
    async with receiving(server, credit=20) as incoming:
        server.deliver(1, (5 * BATCH, 12, False), (3 * BATCH, 5, False), (7 * BATCH, 2, False))
        events = [await incoming.next(timeout=5) for _ in range(14)]
        await events[0].confirm()
        await incoming.settled(timeout=5)
        server.cut()
        await server.hear(Credit, 3)

        assert [each.handed for each in server.of(Credit)] == [0, 5 * BATCH + 11, 3 * BATCH + 1]
        assert [each.handed for each in server.of(Settle)] == [3 * BATCH + 1]
        assert [array("Q", each.ahead).tolist() for each in server.of(Attach)] == [
            [],
            [3 * BATCH + 2, 3 * BATCH + 4, 7 * BATCH, 7 * BATCH + 1],
        ]


async def test_who_is_handed_out_to_with_care_says_when_its_program_asks_for_more_also_without_a_verdict() -> None:
    server = ScriptedServer()
    async with receiving(server) as incoming:
        server.deliver(1, (BATCH, 1, False), is_careful=True)
        await incoming.next(timeout=5)
        asking = asyncio.create_task(incoming.next(timeout=5))
        await server.hear(Credit, 2)
        server.deliver(1, (2 * BATCH, 1, False), is_careful=True)
        await asking
        with pytest.raises(TimedOut):
            await incoming.next(timeout=0)
        with pytest.raises(TimedOut):
            await incoming.next(timeout=0)

        assert [(each.events, each.handed) for each in server.of(Credit)] == [(1000, 0), (1, BATCH), (1, 2 * BATCH)]


async def test_what_was_finished_before_an_event_that_comes_again_is_said_before_that_is_handed_out() -> None:
    server = ScriptedServer()
    async with receiving(server) as incoming:
        server.deliver(1, (BATCH, 1, False), (2 * BATCH, 1, False), (3 * BATCH, 1, False), deliveries=(0, 1, 0))
        for _ in range(3):
            await (await incoming.next(timeout=5)).confirm()
            said = [ranges(each) for each in server.of(Settle)]

        assert said == [[(BATCH, BATCH)], [(2 * BATCH, 2 * BATCH)]]


@pytest.mark.parametrize("is_answering", [True, False])
async def test_of_events_that_come_again_together_each_is_handed_out_after_what_was_finished_before_is_said(
    is_answering: bool,
) -> None:
    """Also while the server is slow to answer: who asks waits, for as long as it says."""
    server = ScriptedServer()
    async with receiving(server) as incoming:
        server.is_settling = is_answering
        server.deliver(1, (BATCH, 40, False), deliveries=(1,))
        finished = 0
        with contextlib.suppress(TimedOut):
            for finished in range(40):
                event = await incoming.next(timeout=0.1)
                assert [each for settle in server.of(Settle) for each in ranges(settle)] == [
                    (BATCH + index, BATCH + index) for index in range(finished)
                ]
                await event.confirm()

        assert finished == (39 if is_answering else SETTLES_MAX + 1)
        server.is_settling = True
        server.cut()
        await incoming.settled(timeout=5)


# --- by itself -------------------------------------------------------------------------------------------------------

NOW_MS = 5_000


def filled(*slices: tuple[int, list[int]]) -> tuple[ReceiveBuffer, ReceiveCredit]:
    """A buffer with slices, each its first position and when its events expire (0: never), and a credit that is not granted."""
    buffer = ReceiveBuffer("q", lambda: NOW_MS)
    for first, expiries_ms in slices:
        heads = [encode_head(Head(expires_at_ms=each)) for each in expiries_ms]
        bodies = [b"1"] * len(heads)
        latest_ms = max(expiries_ms)
        made = batch.encode(heads, bodies, source="s", first_id=1, earliest_expiry_ms=latest_ms, latest_expiry_ms=latest_ms)
        buffer.append(ReceivedSlice(None, Batch(made), first, len(heads), 0, len(made), 0))
    return buffer, ReceiveCredit(cast("Any", None), 1, 100, 1 << 20, buffer.handed_last, lambda: 0.0)


def drained(buffer: ReceiveBuffer, credit: ReceiveCredit) -> list[int]:
    taken = []
    while buffer.step(credit):
        taken.append(buffer.take().position)
    return taken


def test_what_went_to_others_is_not_handed_out_wherever_in_the_slices_it_lies() -> None:
    buffer, credit = filled((10, [0] * 5), (20, [0] * 3), (30, [0] * 2))
    buffer.step(credit)
    buffer.take()

    dropped = buffer.lose(Ranges.of((10, 12), (21, 21), (30, 35)))

    assert dropped == [(11, 12), (21, 21), (30, 31)]
    assert drained(buffer, credit) == [13, 14, 20, 22]


def test_while_it_is_paused_nothing_is_ready_and_then_it_goes_on_where_it_was() -> None:
    buffer, credit = filled((10, [0] * 3))
    buffer.step(credit)
    buffer.take()

    buffer.pause()
    assert buffer.index == buffer.ready
    assert (buffer.handed_last(), list(buffer.untaken())) == (10, [(11, 12)])
    buffer.go_on()

    assert drained(buffer, credit) == [11, 12]


def test_expired_events_are_set_aside_uncounted_and_all_that_is_used_up_is_counted() -> None:
    buffer, credit = filled((10, [0, NOW_MS, NOW_MS - 1, NOW_MS + 1]), (20, [1]), (30, [0]))

    assert drained(buffer, credit) == [10, 13, 30]

    assert [(each.verdict, list(each.ranges), each.is_counted) for each in buffer.aside] == [
        ("release", [(11, 12)], False),
        ("release", [(20, 20)], False),
    ]
    assert credit.window.open == -6
    assert buffer.handed_last() == 30
