"""The attachment of a keeper in rare moments: what it says it holds, when, and to which server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.client.destination import Queue
from holdfast.client.receiving.attachment import attachment
from holdfast.client.receiving.incoming import Incoming
from holdfast.errors import Detached
from holdfast.event.position import Ranges
from holdfast.wire.frame import FRAME_BYTES_MAX, Answered, Attach, Hello, Settle, Welcome
from tests.scripted_server import ScriptedServer, connected

BATCH = 1 << 16
HELD = Ranges.of((BATCH, BATCH + 9), (2 * BATCH, 2 * BATCH))


@asynccontextmanager
async def keeping(server: ScriptedServer, held: Any) -> AsyncIterator[Incoming]:
    async with connected(server) as connection, Queue(connection.session, "q").receive(held=held, credit=100) as incoming:
        yield incoming


def said(attach: Attach) -> Ranges:
    return Ranges.from_bytes(attach.held)


async def test_a_keeper_says_what_it_holds_and_others_do_not_say_that_they_keep() -> None:
    server = ScriptedServer()
    async with keeping(server, HELD) as incoming:
        assert incoming.held == HELD
    async with keeping(server, None):
        pass

    keeper, other = server.of(Attach)
    assert (keeper.keeps, said(keeper), keeper.ahead) == (True, HELD, b"")
    assert (other.keeps, other.held) == (False, b"")


async def test_a_server_of_before_says_that_all_is_lost_and_a_verdict_on_it_is_passed_over() -> None:
    server = ScriptedServer()
    server.answers[Attach] = lambda message: Answered(message.token, {"subscription": "", "lost": message.held})
    async with keeping(server, HELD) as incoming:
        assert (incoming.lost, incoming.held) == (HELD, Ranges())
        assert incoming.confirm(HELD) == Ranges()
        server.deliver(1, (BATCH, 10, False))
        await incoming.next(timeout=5)
        assert incoming.confirm([(BATCH, BATCH)]) == Ranges.of((BATCH, BATCH))
        await incoming.settled(timeout=5)

    assert Ranges.from_bytes(server.of(Settle)[0].ranges) == Ranges.of((BATCH, BATCH))


async def test_on_a_new_link_of_the_same_session_it_holds_what_it_held_less_what_is_decided() -> None:
    server = ScriptedServer()
    async with keeping(server, HELD) as incoming:
        incoming.confirm([(BATCH, BATCH + 4)])
        await incoming.settled(timeout=5)
        server.cut()
        _, again = await server.hear(Attach, 2)

    assert (again.keeps, said(again)) == (True, HELD.without(Ranges.of((BATCH, BATCH + 4))))


async def test_a_function_is_asked_again_when_the_session_was_given_up_and_ranges_are_not() -> None:
    for held, expected in ((lambda: HELD, HELD), (HELD, Ranges())):
        server = ScriptedServer()
        async with keeping(server, held):
            server.is_resuming = False
            server.cut()
            first, again = await server.hear(Attach, 2)
        assert (said(first), said(again)) == (HELD, expected)


async def test_on_another_incarnation_it_claims_nothing_and_ends() -> None:
    server = ScriptedServer()
    welcomes = iter([Welcome(1, "scripted", FRAME_BYTES_MAX, 60_000, 4, 0, each) for each in ("one", "one+1-abc")])
    server.answers[Hello] = lambda message: next(welcomes)
    async with connected(server) as connection:
        incoming = Queue(connection.session, "q").receive(held=lambda: HELD)
        await incoming.open()
        assert incoming.identity == "one:0"
        server.cut()
        with pytest.raises(Detached, match="it was one, and is one"):
            await incoming.next(timeout=10)

    assert len(server.of(Attach)) == 1


async def test_more_ranges_than_a_frame_has_room_for_are_not_named() -> None:
    server = ScriptedServer()
    many = Ranges.gather((entry * BATCH, entry * BATCH) for entry in range(1, attachment.RANGES_HELD_MAX + 100))
    async with keeping(server, many) as incoming:
        assert incoming.held == next(many.portions(attachment.RANGES_HELD_MAX))


async def test_a_death_elsewhere_is_told_in_a_field_that_older_servers_pass_over() -> None:
    server = ScriptedServer()
    async with keeping(server, HELD) as incoming:
        incoming.reject([(BATCH, BATCH)], "too late", "expired")
        incoming.reject([(BATCH + 1, BATCH + 1)], "broken", "failed")
        incoming.reject([(BATCH + 2, BATCH + 3)], "no")
        await incoming.settled(timeout=5)

    told = [(each.code, each.death, each.reason, each.events) for each in server.of(Settle)[:3]]
    assert told == [("", "expired", "too late", 1), ("failed", "", "broken", 1), ("", "", "no", 2)]


async def test_leaving_gives_back_uncounted_what_the_program_had() -> None:
    server = ScriptedServer()
    async with keeping(server, HELD) as incoming:
        server.deliver(1, (3 * BATCH, 2, False))
        await incoming.next(timeout=5)

    (release,) = server.of(Settle)
    assert (release.verdict, release.is_counted) == ("release", False)
    assert Ranges.from_bytes(release.ranges) == Ranges.of(*HELD, (3 * BATCH, 3 * BATCH))
