"""The recipient in rare moments: ranges, lost links, sessions that were given up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.client.destination import Queue
from holdfast.client.receiving.incoming import Incoming
from holdfast.destination import command
from holdfast.errors import BatchDamaged, Detached, HoldfastError, LinkLost, NoSuchDestination, TimedOut
from holdfast.event import batch
from holdfast.event.position import Ranges
from holdfast.wire.frame import (
    FRAME_BYTES_MAX,
    Answered,
    Attach,
    Credit,
    Deliver,
    DetachReceiver,
    Failed,
    ReceiverClosed,
    Settle,
    Slice,
    encode_lead,
)
from tests.scripted_server import ScriptedServer, connected
from tests.waiting import turn_loop

BATCH = 1 << 16


@asynccontextmanager
async def receiving(server: ScriptedServer, credit: int = 1000) -> AsyncIterator[Incoming]:
    async with connected(server) as connection, Queue(connection.session, "q").receive(credit=credit) as incoming:
        yield incoming


async def take(incoming: Incoming, count: int) -> list[object]:
    return [await incoming.next(timeout=5) for _ in range(count)]


def ranges(settle: Settle) -> list[tuple[int, int]]:
    return list(Ranges.from_bytes(settle.ranges))


async def test_confirms_of_a_slice_travel_as_one_range() -> None:
    server = ScriptedServer()
    async with receiving(server) as incoming:
        server.deliver(1, (BATCH, 100, False))
        for _ in range(100):
            await (await incoming.next(timeout=5)).confirm()
        await incoming.settled(timeout=5)

    (settle,) = server.of(Settle)
    assert (settle.verdict, ranges(settle), settle.delivered_up_to) == ("confirm", [(BATCH, BATCH + 99)], BATCH + 99)


async def test_a_range_spans_batches_only_where_they_adjoin() -> None:
    server = ScriptedServer()
    async with receiving(server) as incoming:
        server.deliver(1, (BATCH, 2, False), (3 * BATCH, 2, True), (5 * BATCH, 2, False))
        for _ in range(6):
            await (await incoming.next(timeout=5)).confirm()

    assert ranges(server.of(Settle)[0]) == [(BATCH, 3 * BATCH + 1), (5 * BATCH, 5 * BATCH + 1)]


async def test_a_range_never_spans_what_was_handed_over_earlier_and_is_still_held() -> None:
    """An older event that comes again between two newer slices must not let a range swallow what lies between."""
    server = ScriptedServer()
    async with receiving(server) as incoming:
        server.deliver(1, (5 * BATCH, 1, False), (2 * BATCH, 1, True), (6 * BATCH, 1, True))
        _, older, newer = [await incoming.next(timeout=5) for _ in range(3)]
        await older.confirm()
        await newer.confirm()
        await incoming.settled(timeout=5)

        assert ranges(server.of(Settle)[0]) == [(2 * BATCH, 2 * BATCH), (6 * BATCH, 6 * BATCH)]


async def test_releases_and_rejections_are_told_apart_by_delay_and_reason() -> None:
    server = ScriptedServer()
    async with receiving(server) as incoming:
        server.deliver(1, (BATCH, 5, False))
        events = [await incoming.next(timeout=5) for _ in range(5)]
        events[0].release()
        events[1].release(delay=1.5)
        events[2].release(delay=1.5)
        events[3].reject("a")
        await events[4].reject("b")

    found = {(each.verdict, each.delay_ms, each.reason): ranges(each) for each in server.of(Settle)}
    assert found == {
        ("release", 0, ""): [(BATCH, BATCH)],
        ("release", 1500, ""): [(BATCH + 1, BATCH + 2)],
        ("reject", 0, "a"): [(BATCH + 3, BATCH + 3)],
        ("reject", 0, "b"): [(BATCH + 4, BATCH + 4)],
    }


async def test_leaving_releases_what_was_seen_as_counted_and_detaches() -> None:
    server = ScriptedServer()
    async with receiving(server) as incoming:
        server.deliver(1, (BATCH, 5, False), (2 * BATCH, 5, False))
        for event in [await incoming.next(timeout=5) for _ in range(3)][:1]:
            await event.confirm()

    confirm, release = server.of(Settle)
    assert ranges(confirm) == [(BATCH, BATCH)]
    assert (release.verdict, release.is_counted, ranges(release)) == ("release", True, [(BATCH + 1, BATCH + 2)])
    assert len(server.of(DetachReceiver)) == 1


async def test_credit_is_granted_again_when_half_of_it_is_used() -> None:
    server = ScriptedServer()
    async with receiving(server, credit=10) as incoming:
        server.deliver(1, (BATCH, 4, False), (2 * BATCH, 4, False))
        await take(incoming, 8)
        assert [each.events for each in server.of(Credit)] == [10]

        server.deliver(1, (3 * BATCH, 1, False))
        await take(incoming, 1)
        await server.hear(Credit, 2)

        assert [each.events for each in server.of(Credit)] == [10, 8]


async def test_after_a_lost_link_it_says_what_it_holds_sends_unanswered_verdicts_again_and_grants_anew() -> None:
    server = ScriptedServer()
    server.is_settling = False
    async with receiving(server, credit=100) as incoming:
        server.deliver(1, (BATCH, 10, False), (3 * BATCH, 5, False))
        events = [await incoming.next(timeout=5) for _ in range(4)]
        await events[0].confirm()
        await events[1].confirm()
        incoming._receiver.outbox.flush()
        await server.hear(Settle)
        server.is_settling = True
        server.cut()

        await server.hear(Credit, 2)

        held = list(Ranges.from_bytes(server.of(Attach)[1].held))
        assert held == [(BATCH, BATCH + 9), (3 * BATCH, 3 * BATCH + 4)]
        assert [ranges(each) for each in server.of(Settle)] == [[(BATCH, BATCH + 1)]] * 2
        assert server.of(Credit)[1].events == 100 - 15
        await incoming.settled(timeout=5)


async def test_verdicts_noted_without_a_link_travel_over_the_next_one() -> None:
    server = ScriptedServer()
    async with receiving(server) as incoming:
        server.deliver(1, (BATCH, 2, False))
        events = [await incoming.next(timeout=5) for _ in range(2)]
        server.cut()
        for event in events:
            await event.confirm()

        await incoming.settled(timeout=5)

        assert ranges(server.of(Settle)[-1]) == [(BATCH, BATCH + 1)]


async def test_a_session_that_was_given_up_discards_what_it_held_and_attaches_again() -> None:
    """B10: its unconfirmed events went to others."""
    server = ScriptedServer()
    server.is_resuming = False
    async with receiving(server) as incoming:
        server.deliver(1, (BATCH, 5, False))
        event = await incoming.next(timeout=5)
        server.cut()
        await server.hear(Attach, 2)

        await event.confirm()
        with pytest.raises(Detached, match="went to others"):
            await incoming.settled(timeout=5)
        server.deliver(1, (9 * BATCH, 1, False))

        assert server.of(Attach)[1].held == b""
        assert (await incoming.next(timeout=5)).position == 9 * BATCH
        assert server.of(Settle) == []


async def test_a_verdict_that_is_refused_because_the_receiver_is_detached_ends_it() -> None:
    server = ScriptedServer()
    server.answers[Settle] = lambda message: Failed(message.token, Detached.code, "refused", "attach again")
    with pytest.raises(Detached, match="attach again"):
        async with receiving(server) as incoming:
            server.deliver(1, (BATCH, 5, False))
            await (await incoming.next(timeout=5)).confirm()
            with pytest.raises(Detached):
                await incoming.settled(timeout=5)
            await incoming.next(timeout=5)


async def test_a_receiver_that_the_server_closes_ends_with_its_reason() -> None:
    server = ScriptedServer()
    with pytest.raises(NoSuchDestination, match="'q' ended: it was deleted"):
        async with receiving(server) as incoming:
            server.say(ReceiverClosed(1, NoSuchDestination.code, "it was deleted"))
            await incoming.next(timeout=5)
    assert server.of(DetachReceiver) == []


async def test_verdicts_that_are_not_answered_in_time_have_an_unknown_outcome() -> None:
    server = ScriptedServer()
    server.is_settling = False
    async with receiving(server) as incoming:
        server.deliver(1, (BATCH, 1, False))
        await (await incoming.next(timeout=5)).confirm()

        with pytest.raises(LinkLost, match="may have been applied"):
            await incoming.settled(timeout=0.02)
        server.is_settling = True
        server.cut()


@pytest.mark.parametrize("at", [0, 5, 64, 70])
async def test_a_batch_that_was_damaged_on_the_way_is_never_handed_out(at: int) -> None:
    server = ScriptedServer()
    damaged = bytearray(batch.encode([b"head"], [b"body"], source="s", first_id=1))
    damaged[at] ^= 0x20
    with pytest.raises(HoldfastError) as refusal:
        async with receiving(server) as incoming:
            server.say(Deliver(1, [Slice(BATCH, 1, 0, False, len(damaged))]), body=bytes(damaged))
            await incoming.next(timeout=5)
    assert refusal.value.code in ("batch-damaged", "unknown-version")


async def test_a_slice_that_is_not_what_it_says_is_never_handed_out() -> None:
    server = ScriptedServer()
    whole = batch.encode([b"head"], [b"body"], source="s", first_id=1)
    with pytest.raises(BatchDamaged, match="2 events came with 1"):
        async with receiving(server) as incoming:
            server.say(Deliver(1, [Slice(BATCH, 2, 0, False, len(whole))]), body=whole)
            await incoming.next(timeout=5)


async def test_several_tasks_may_wait_for_events_of_one_receiver() -> None:
    server = ScriptedServer()
    async with receiving(server) as incoming:
        waiting = [asyncio.get_running_loop().create_task(incoming.next(timeout=5)) for _ in range(3)]
        await turn_loop()

        server.deliver(1, (BATCH, 3, False))

        assert sorted([event.position for event in await asyncio.gather(*waiting)]) == [BATCH, BATCH + 1, BATCH + 2]


async def test_a_receiver_that_holds_ten_thousand_batches_attaches_again_and_settles_them_in_frames_that_fit() -> None:
    """Every list of ranges that travels fits its frame, and its command, however many slices a program keeps to itself."""
    server = ScriptedServer()
    async with receiving(server, credit=20_000) as incoming:
        server.deliver(1, *((number * BATCH, 1, False) for number in range(1, 10_001)))
        events = await take(incoming, 10_000)
        server.cut()
        for event in events:
            event.confirm()  # type: ignore[attr-defined]
        await incoming.settled(timeout=20)

    assert len(encode_lead(1, server.of(Attach)[1], 0)) < FRAME_BYTES_MAX
    assert sum(len(ranges(each)) for each in server.of(Settle)) == 10_000
    for each in server.of(Settle):
        assert len(command.encode(command.Confirm("q", "", "s1", each.ranges))) < 1 << 16


async def test_credit_that_is_used_up_while_other_receivers_are_still_attaching_is_granted_again() -> None:
    server = ScriptedServer()
    async with connected(server) as connection:
        queue = Queue(connection.session, "q")
        async with queue.receive(credit=1) as incoming, queue.receive():
            await server.hear(Credit, 2)
            answers: list[Attach] = []
            server.answers[Attach] = lambda message: answers.append(message) or None  # type: ignore[func-returns-value]
            server.cut()
            await server.hear(Attach, 3)
            server.say(Answered(answers[0].token))
            await server.hear(Attach, 4)  # the second one is not answered yet: the session is not ready
            server.deliver(1, (BATCH, 1, False))
            await take(incoming, 1)
            waiting = asyncio.ensure_future(incoming.next(timeout=5))
            await turn_loop()
            del server.answers[Attach]
            server.say(Answered(answers[1].token))

            await server.hear(Credit, 5)
            server.deliver(1, (2 * BATCH, 1, False))

            assert (await waiting).position == 2 * BATCH


async def test_a_receiver_that_could_not_be_closed_in_good_order_is_detached_over_the_next_link() -> None:
    """Otherwise the server would keep what it held for it, and give it to nobody, for as long as the client lives."""
    server = ScriptedServer()
    async with connected(server) as connection:
        incoming = await Queue(connection.session, "q").receive().open()
        server.deliver(1, (BATCH, 5, False))
        await take(incoming, 1)
        server.is_refusing_links = True
        server.cut()
        with pytest.raises(HoldfastError):
            await incoming.close(timeout=0.02)
        server.is_refusing_links = False

        (detached,) = await server.hear(DetachReceiver)

        assert detached.receiver == 1


async def test_asking_again_and_again_for_an_event_that_does_not_come_costs_no_memory() -> None:
    server = ScriptedServer()
    async with receiving(server) as incoming:
        for _ in range(100):
            with pytest.raises(TimedOut):
                await incoming.next(timeout=0)

        assert not incoming._receiver._waiters


async def test_thousands_of_different_verdicts_travel_a_few_at_a_time() -> None:
    """The server bounds the questions of a session: a client that noted more without a link must not be cut off for it."""
    server = ScriptedServer()
    async with receiving(server) as incoming:
        server.deliver(1, (BATCH, 300, False))
        server.is_settling = False
        for number, event in enumerate([await incoming.next(timeout=5) for _ in range(300)]):
            await event.reject(f"reason {number}")
        incoming._receiver.outbox.flush()
        await server.hear(Settle)
        await turn_loop()
        assert len(server.of(Settle)) <= 32

        server.is_settling = True
        server.cut()
        await incoming.settled(timeout=10)

    assert len({each.reason for each in server.of(Settle)}) == 300


async def test_what_was_released_and_not_answered_is_not_claimed_again_after_a_lost_link() -> None:
    """Somebody else may hold it by now; after a restart of the server only what receivers claim says who holds what (P7)."""
    server = ScriptedServer()
    server.is_settling = False
    async with receiving(server) as incoming:
        server.deliver(1, (BATCH, 3, False))
        events = [await incoming.next(timeout=5) for _ in range(3)]
        await events[0].release()
        await events[1].confirm()
        incoming._receiver.outbox.flush()
        await server.hear(Settle, 2)
        server.is_settling = True
        server.cut()

        await server.hear(Settle, 4)

        assert list(Ranges.from_bytes(server.of(Attach)[1].held)) == [(BATCH + 1, BATCH + 2)]
        assert server.heard.index(server.of(Settle)[3]) < server.heard.index(server.of(Attach)[1])
        await incoming.settled(timeout=5)
