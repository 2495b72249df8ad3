"""Verdicts that were not applied, or perhaps not: kept in order, and named by `settled`, so that all others are settled."""

from __future__ import annotations

import pytest

from holdfast.client.destination import Queue
from holdfast.errors import AlreadyFinished, Detached, HoldfastError, LinkLost, TimedOut
from holdfast.event.position import Ranges
from holdfast.wire.frame import Answered, Attach, Hello, Message, OpenSession, Settle
from tests.scripted_server import ScriptedServer, connected
from tests.unit.client.receiving.test_receiver import BATCH, receiving
from tests.waiting import until


@pytest.mark.parametrize(("is_settling", "kind"), [(True, Detached), (False, LinkLost)])
async def test_of_a_session_that_was_given_up_every_event_is_named_whose_verdict_was_not_applied_or_perhaps_not(
    is_settling: bool, kind: type[HoldfastError]
) -> None:
    """What is not named is settled: a program that takes back the work of the others must not take back this one's."""
    server = ScriptedServer()
    server.is_resuming = False
    async with receiving(server) as incoming:
        server.deliver(1, (BATCH, 5, False))
        applied, sent, noted, late, _ = [await incoming.next(timeout=5) for _ in range(5)]
        await applied.confirm()
        await server.hear(Settle)
        server.is_settling = is_settling
        await sent.confirm()
        await server.hear(Settle, 2)
        server.cut()
        await until(lambda: not incoming._receiver.session.is_ready, "the link is lost")
        await noted.confirm()
        await server.hear(Attach, 2)
        await late.confirm()

        with pytest.raises(kind) as caught:
            await incoming.settled(timeout=5)

        named = [] if is_settling else [sent.position]
        assert sorted(position for pair in caught.value.fields["positions"] for position in range(pair[0], pair[1] + 1)) == [
            *named,
            noted.position,
            late.position,
        ]
        await incoming.settled(timeout=5)


async def test_a_confirm_in_client_mode_that_comes_too_late_names_all_that_it_was_about() -> None:
    server = ScriptedServer()
    server.is_resuming = False
    async with connected(server) as connection, Queue(connection.session, "q").receive(confirm="client") as incoming:
        server.deliver(1, (BATCH, 5, False))
        events = [await incoming.next(timeout=5) for _ in range(4)]
        await events[1].confirm()
        await incoming.settled(timeout=5)
        events += [await incoming.next(timeout=5)]
        server.cut()
        await server.hear(Attach, 2)
        await events[-1].confirm()

        with pytest.raises(Detached) as caught:
            await incoming.settled(timeout=5)

        assert caught.value.fields["positions"] == [(BATCH + 4, BATCH + 4)]
        server.deliver(1, (9 * BATCH, 3, False))
        events = [await incoming.next(timeout=5) for _ in range(3)]
        server.cut()
        await server.hear(Attach, 3)
        await events[0].confirm()
        with pytest.raises(Detached) as caught:
            await incoming.settled(timeout=5)
        assert caught.value.fields["positions"] == [(9 * BATCH, 9 * BATCH + 2)]


async def test_an_event_that_comes_again_before_its_release_is_answered_is_held() -> None:
    """What a receiver does not say that it holds is given to others, and a verdict on it is named when they were first."""
    server = ScriptedServer()
    async with receiving(server) as incoming:
        server.deliver(1, (BATCH, 2, False))
        server.is_settling = False
        await (await incoming.next(timeout=5)).release()
        await incoming.next(timeout=5)
        (settle,) = await server.hear(Settle)
        server.deliver(1, (BATCH, 1, False), deliveries=(1,))
        again = await incoming.next(timeout=5)
        server.say(Answered(settle.token))
        await incoming.settled(timeout=5)
        server.cut()
        _, attached = await server.hear(Attach, 2)
        assert list(Ranges.from_bytes(attached.held)) == [(BATCH, BATCH + 1)]

        server.answers[Settle] = lambda message: Answered(message.token, [b""])
        await again.confirm()
        with pytest.raises(AlreadyFinished) as caught:
            await incoming.settled(timeout=5)

        assert caught.value.fields["positions"] == [(BATCH, BATCH)]
        server.answers.clear()
        server.is_settling = True


@pytest.mark.parametrize("step", [Hello, OpenSession])
async def test_a_verdict_given_while_the_session_is_resumed_waits_for_those_that_go_again(step: type[Message]) -> None:
    """Verdicts are numbered: one that overtook those of the link before would have them taken for applied."""
    server = ScriptedServer()
    async with receiving(server) as incoming:
        server.deliver_expiring(1, (BATCH, 3), -1_000)
        event = await incoming.next(timeout=5)
        server.is_settling = False
        await event.confirm()
        await server.hear(Settle)
        server.answers[step] = lambda _: None
        server.cut()
        await server.hear(step, 2)
        with pytest.raises(TimedOut):  # the others have expired, and are given back
            await incoming.next(timeout=0.05)
        assert len(server.of(Settle)) == 1

        server.answers.clear()
        server.is_settling = True
        server.cut()
        await incoming.settled(timeout=5)

    assert [(each.verdict, each.number) for each in server.of(Settle)] == [("confirm", 1), ("confirm", 1), ("release", 2)]
