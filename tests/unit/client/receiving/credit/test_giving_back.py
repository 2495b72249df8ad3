"""Giving back what was prefetched, in rare moments: events under way, a lost link, a program that asks meanwhile."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.client.destination import Queue
from holdfast.client.receiving.credit.receive_credit import CREDIT_EVENTS
from holdfast.client.receiving.incoming import Incoming
from holdfast.event.position import Ranges
from holdfast.wire.frame import Answered, Attach, Credit, Settle
from tests.scripted_server import ScriptedServer, connected
from tests.waiting import turn_loop

BATCH = 1 << 16


@asynccontextmanager
async def receiving(server: ScriptedServer, **options: Any) -> AsyncIterator[Incoming]:
    async with connected(server) as connection, Queue(connection.session, "q").receive(**options) as incoming:
        yield incoming


def holding(attach: Attach) -> list[tuple[int, int]]:
    return list(Ranges.from_bytes(attach.held))


async def test_a_program_keeps_what_it_was_handed_and_gives_back_the_rest() -> None:
    server = ScriptedServer()
    async with receiving(server) as incoming:
        server.deliver(1, (BATCH, 5, False), (3 * BATCH, 5, False))
        await incoming.next(timeout=5)
        await incoming.give_back_prefetched()
        _, again = await server.hear(Attach, 2)

        assert holding(again) == [(BATCH, BATCH)]
        assert array("Q", again.ahead).tolist() == []
        assert not server.of(Settle)
        await turn_loop(10)
        assert [each.events for each in server.of(Credit)] == [CREDIT_EVENTS]  # no more until it asks


async def test_a_program_that_asks_while_events_are_given_back_is_handed_what_comes_after_the_answer() -> None:
    server = ScriptedServer()
    async with receiving(server) as incoming:
        server.deliver(1, (BATCH, 5, False))
        await incoming.next(timeout=5)
        server.answers[Attach] = lambda _: None
        giving_back = asyncio.create_task(incoming.give_back_prefetched())
        _, again = await server.hear(Attach, 2)
        asking = asyncio.create_task(incoming.next(timeout=10))
        server.deliver(1, (2 * BATCH, 5, False))  # was under way: the server takes it back too
        await turn_loop(10)
        assert len(server.of(Credit)) == 1
        assert not asking.done()

        server.say(Answered(again.token))
        await giving_back
        await server.hear(Credit, 2)
        server.deliver(1, (BATCH + 1, 4, False), (2 * BATCH, 5, False))

        assert (await asking).position == BATCH + 1
        assert [(await incoming.next(timeout=5)).position for _ in range(4)][-1] == 2 * BATCH


async def test_a_link_lost_while_events_are_given_back_leaves_the_rest_to_the_next_link() -> None:
    server = ScriptedServer()
    async with receiving(server) as incoming:
        server.deliver(1, (BATCH, 5, False))
        first = await incoming.next(timeout=5)
        server.answers[Attach] = lambda _: None
        giving_back = asyncio.create_task(incoming.give_back_prefetched())
        await server.hear(Attach, 2)
        del server.answers[Attach]
        server.cut()
        await giving_back
        *_, again = await server.hear(Attach, 3)
        await server.hear(Credit, 2)

        assert holding(again) == [(BATCH, BATCH)]
        server.deliver(1, (BATCH + 1, 4, False))
        assert (await incoming.next(timeout=5)).position == BATCH + 1
        await first.confirm()
        await incoming.settled(timeout=5)


async def test_events_that_the_program_lost_meanwhile_are_named_by_its_verdicts() -> None:
    server = ScriptedServer()
    async with receiving(server, credit=10) as incoming:
        server.deliver(1, (BATCH, 5, False))
        await incoming.next(timeout=5)
        server.answers[Attach] = lambda message: Answered(message.token, {"lost": Ranges.of((BATCH, BATCH)).to_bytes()})
        await incoming.give_back_prefetched()

        assert list(incoming._receiver.outbox.lost.ranges()) == [(BATCH, BATCH)]
        assert not incoming._receiver.held


async def test_an_exact_credit_is_granted_in_full_when_the_program_asks_again() -> None:
    server = ScriptedServer()
    async with receiving(server, credit=10) as incoming:
        server.deliver(1, (BATCH, 5, False))
        await incoming.next(timeout=5)
        await incoming.give_back_prefetched()
        assert len(server.of(Credit)) == 1

        asking = asyncio.create_task(incoming.next(timeout=5))
        *_, granted = await server.hear(Credit, 2)
        assert granted.events == 10
        server.deliver(1, (BATCH + 1, 1, False))
        await asking
