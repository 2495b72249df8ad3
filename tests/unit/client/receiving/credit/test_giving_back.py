"""Giving back what was prefetched, in rare moments: events under way, a lost link, a program that asks meanwhile."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.client.destination import Queue
from holdfast.client.receiving.credit.credit_window import START_EVENTS
from holdfast.client.receiving.incoming import Incoming
from holdfast.event.position import Ranges
from holdfast.wire.frame import Attach, Credit, Settle
from tests.scripted_server import ScriptedServer, connected
from tests.waiting import turn_loop

BATCH = 1 << 16


@asynccontextmanager
async def receiving(server: ScriptedServer, **options: Any) -> AsyncIterator[Incoming]:
    async with connected(server) as connection, Queue(connection.session, "q").receive(**options) as incoming:
        yield incoming


def released(server: ScriptedServer) -> list[tuple[list[tuple[int, int]], bool]]:
    return [(list(Ranges.from_bytes(each.ranges)), each.is_counted) for each in server.of(Settle) if each.verdict == "release"]


def granted(server: ScriptedServer) -> list[tuple[int, int]]:
    return [(each.events, each.withdrawn) for each in server.of(Credit)]


async def test_a_program_keeps_what_it_was_handed_and_gives_back_the_rest_uncounted_and_its_credit() -> None:
    server = ScriptedServer()
    async with receiving(server, credit=100) as incoming:
        server.deliver(1, (BATCH, 5, False), (3 * BATCH, 5, False))
        await incoming.next(timeout=5)
        await incoming.give_back_prefetched()
        await server.hear(Settle)

        assert released(server) == [([(BATCH + 1, BATCH + 4), (3 * BATCH, 3 * BATCH + 4)], False)]
        assert granted(server) == [(100, 0), (0, 90)]  # no more until it asks


async def test_events_that_were_under_way_are_given_back_as_they_come() -> None:
    server = ScriptedServer()
    async with receiving(server, credit=100) as incoming:
        server.deliver(1, (BATCH, 5, False))
        await incoming.next(timeout=5)
        await incoming.give_back_prefetched()
        server.deliver(1, (2 * BATCH, 5, False))
        await server.hear(Settle, 2)

        assert released(server)[1] == ([(2 * BATCH, 2 * BATCH + 4)], False)


async def test_what_was_under_way_is_not_granted_twice_when_the_program_asks_again() -> None:
    server = ScriptedServer()
    async with receiving(server, credit=100) as incoming:
        server.deliver(1, (BATCH, 5, False))
        await incoming.next(timeout=5)
        await incoming.give_back_prefetched()
        server.deliver(1, (2 * BATCH, 5, False))  # the server has handed out 10, and 95 were withdrawn: it is 5 short
        await server.hear(Settle, 2)

        asking = asyncio.create_task(incoming.next(timeout=5))
        *_, last = await server.hear(Credit, 3)
        assert last.events == 105
        server.deliver(1, (BATCH + 1, 1, False))
        assert (await asking).position == BATCH + 1


async def test_a_program_that_waits_for_an_event_keeps_its_credit() -> None:
    server = ScriptedServer()
    async with receiving(server, credit=100) as incoming:
        asking = asyncio.create_task(incoming.next(timeout=5))
        await turn_loop(10)
        await incoming.give_back_prefetched()
        server.deliver(1, (BATCH, 5, False))

        assert (await asking).position == BATCH
        assert granted(server) == [(100, 0)]
        assert not released(server)


async def test_after_a_lost_link_what_was_given_back_is_released_first_and_nothing_is_granted_until_the_program_asks() -> None:
    server = ScriptedServer()
    async with receiving(server, credit=100) as incoming:
        server.deliver(1, (BATCH, 5, False))
        await incoming.next(timeout=5)
        server.is_settling = False
        await incoming.give_back_prefetched()
        await server.hear(Settle)
        server.is_settling = True
        server.cut()
        _, again = await server.hear(Attach, 2)

        assert list(Ranges.from_bytes(again.held)) == [(BATCH, BATCH)]
        assert array("Q", again.ahead).tolist() == []
        assert released(server) == [([(BATCH + 1, BATCH + 4)], False)] * 2
        await turn_loop(20)
        assert len(server.of(Credit)) == 2

        asking = asyncio.create_task(incoming.next(timeout=5))
        *_, last = await server.hear(Credit, 3)
        assert last.events == 100
        server.deliver(1, (BATCH + 1, 1, False))
        await asking


async def test_the_default_credit_begins_small_and_grows_for_a_program_that_is_fast() -> None:
    server = ScriptedServer()
    async with receiving(server) as incoming:
        begin = BATCH
        for heard in range(1, 8):
            *_, last = await server.hear(Credit, heard)
            server.deliver(1, *((begin + index, 1, False) for index in range(last.events)))
            for _ in range(last.events):
                await incoming.next(timeout=5)
            begin += BATCH

        sizes = [each.events for each in server.of(Credit)]
        assert sizes[0] == START_EVENTS
        assert sum(sizes) > 8 * START_EVENTS


async def test_with_crash_care_the_next_event_is_asked_for_only_when_the_program_asks_and_then_always() -> None:
    server = ScriptedServer()
    async with receiving(server) as incoming:
        for number in range(1, 6):
            asking = asyncio.ensure_future(anext(incoming.batches()) if number % 2 else incoming.next(timeout=5))
            await server.hear(Credit, number)
            server.deliver(1, (number * BATCH, 1, False), is_careful=True)
            await asking
            await turn_loop(10)

            assert len(server.of(Credit)) == number
            incoming._receiver.credit.window.size = 1  # smaller than what is open: the server waits for the word nevertheless
