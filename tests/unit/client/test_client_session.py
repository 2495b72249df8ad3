"""Sessions and confirm modes in rare moments: what travels, and what a lost link does on the way."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.client.client_session import ClientSession
from holdfast.client.connection.connection import Connection
from holdfast.client.destination import Queue
from holdfast.client.receiving.attachment import recovery
from holdfast.errors import LinkLost
from holdfast.event.position import Ranges
from holdfast.wire.frame import Answered, Attach, CloseSession, Credit, OpenSession, Settle
from tests.scripted_server import ScriptedServer, connected

BATCH = 1 << 16


def ranges(settle: Settle) -> list[tuple[int, int]]:
    return list(Ranges.from_bytes(settle.ranges))


async def test_duplicates_ok_tells_the_server_in_one_range_what_auto_tells_in_many() -> None:
    settles = {}
    for mode in ("auto", "duplicates-ok"):
        server = ScriptedServer()
        async with connected(server) as connection, Queue(connection.session, "q").receive(confirm=mode) as incoming:
            for batch in range(1, 51):
                server.deliver(1, (batch * BATCH, 20, batch > 1))
                for _ in range(20):
                    await incoming.next(timeout=5)
        settles[mode] = len(server.of(Settle))
        confirmed = [each for settle in server.of(Settle) for each in ranges(settle)]

        assert (confirmed[0][0], confirmed[-1][1]) == (BATCH, 50 * BATCH + 19)

    assert settles["duplicates-ok"] == 1
    assert settles["auto"] > 10


async def test_in_client_mode_many_events_are_confirmed_as_ranges() -> None:
    server = ScriptedServer()
    async with connected(server) as connection, Queue(connection.session, "q").receive(confirm="client") as incoming:
        server.deliver(1, (BATCH, 100, False), (2 * BATCH, 100, True))
        events = [await incoming.next(timeout=5) for _ in range(150)]
        await events[-1].confirm()
        await incoming.settled(timeout=5)

        (settle,) = server.of(Settle)
        assert ranges(settle) == [(BATCH, 2 * BATCH + 49)]


async def test_each_session_has_a_number_of_its_own_on_the_link_and_a_passing_one_takes_none_of_them() -> None:
    server = ScriptedServer()
    async with connected(server) as connection:
        first, second = [await session_of(connection).open() for _ in range(2)]
        assert first._opened().number != second._opened().number != connection.session.number
        before = connection.session.ids.left

        connection.session.fetch_ids()
        await server.hear(CloseSession)

        assert len(server.of(OpenSession)) == 4
        assert connection.session.ids.left >= before
        await first.close()
        await second.close()


def session_of(connection: Connection) -> ClientSession:
    return ClientSession(connection, "test", "event")


async def test_recovering_grants_no_credit_before_every_receiver_holds_nothing() -> None:
    """Otherwise newer events would overtake those that another receiver of the session has not given back yet."""
    server = ScriptedServer()
    async with connected(server) as connection:
        queue = Queue(connection.session, "q")
        one, other = await queue.receive(credit=10).open(), await queue.receive(credit=10).open()
        server.deliver(1, (BATCH, 2, False))
        server.deliver(2, (2 * BATCH, 2, False))
        await one.next(timeout=5)
        await other.next(timeout=5)
        server.heard.clear()
        held_back: list[Attach] = []

        def attach(message: Attach) -> Answered:
            if message.receiver == 2 and not held_back:
                held_back.append(message)
                return None  # type: ignore[return-value]  # no answer yet
            return Answered(message.token)

        server.answers[Attach] = attach
        recovering = asyncio.create_task(recovery.recover(connection.session, 5))
        await server.hear(Attach, 2)
        assert server.of(Credit) == []

        server.say(Answered(held_back[0].token))
        await recovering

        assert [(each.receiver, each.events) for each in server.of(Credit)] == [(1, 10), (2, 10)]
        assert [(each.verdict, each.is_counted, ranges(each)) for each in server.of(Settle)] == [
            ("release", True, [(BATCH, BATCH)]),
            ("release", True, [(2 * BATCH, 2 * BATCH)]),
        ]
        assert [each.held for each in server.of(Attach)] == [b"", b""]


async def test_a_recovery_without_an_answer_raises_and_hands_out_what_was_not_given_back() -> None:
    server = ScriptedServer()
    async with connected(server) as connection, Queue(connection.session, "q").receive() as incoming:
        server.deliver(1, (BATCH, 4, False))
        await incoming.next(timeout=5)
        server.answers[Attach] = lambda message: None  # silence
        with pytest.raises(LinkLost):
            await recovery.recover(connection.session, 0.05)

        assert [(await incoming.next(timeout=5)).position for _ in range(3)] == [BATCH + 1, BATCH + 2, BATCH + 3]
        del server.answers[Attach]


async def test_a_link_lost_between_the_steps_of_a_recovery_is_waited_for() -> None:
    server = ScriptedServer()
    async with connected(server) as connection, Queue(connection.session, "q").receive(credit=10) as incoming:
        server.deliver(1, (BATCH, 4, False))
        await incoming.next(timeout=5)
        server.heard.clear()
        cuts = iter((True, False))

        def attach(message: Attach) -> Answered:
            if not message.held and next(cuts, False):
                server.cut()
            return Answered(message.token)

        server.answers[Attach] = attach
        await recovery.recover(connection.session, 5)

        assert server.links == 2
        granted = await server.hear(Credit)
        assert sum(each.events for each in granted) == 10  # whole, and once
        server.deliver(1, (BATCH, 4, False))
        assert (await incoming.next(timeout=5)).position == BATCH
