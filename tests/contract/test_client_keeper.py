"""Keepers over every place a client can find its events at: receivers that keep what they are handed, and come back holding it
(A9). What they hold is not sent again, and does not count as delivered."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
import holdfast.blocking
from holdfast.client.client import Client
from holdfast.client.receiving.incoming import Incoming
from holdfast.errors import BadSetting, TimedOut
from holdfast.event.position import Ranges
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]


def at(*positions: int) -> Ranges:
    return Ranges.gather((each, each) for each in positions)


async def sent(client: Client, name: str, count: int) -> list[int]:
    return [(await client.queue(name).send(number)).position for number in range(count)]


async def received(incoming: Incoming, count: int) -> list[int]:
    """The data of so many events, and that no more come."""
    found = [(await incoming.next(timeout=10)).data for _ in range(count)]
    with pytest.raises(TimedOut):
        await incoming.next(timeout=0.1)
    return found


async def test_what_a_keeper_comes_holding_is_not_sent_again_and_is_decided_on_by_its_positions(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        positions = await sent(client, name, 6)
        first, second, third, fourth, fifth, sixth = positions

        async with client.queue(name).receive(held=at(first, second, third, fourth)) as incoming:
            assert incoming.held == at(first, second, third, fourth) and incoming.lost == Ranges()
            assert await received(incoming, 2) == [4, 5]
            assert incoming.held == at(*positions)
            assert incoming.confirm(at(first, fifth)) == at(first, fifth)
            assert incoming.reject(at(second), "too late there", "expired") == at(second)
            assert incoming.release(at(third)) == at(third)
            await incoming.settled()
            assert incoming.held == at(fourth, sixth)
            assert incoming.confirm(at(first, second, third)) == Ranges()
            found = await client.outcomes(name, at(*positions))

        assert found.confirmed == at(first, fifth) and found.waiting == at(third, fourth, sixth)
        assert [(each.ranges, each.code, each.reason) for each in found.dead] == [(at(second), "expired", "too late there")]


async def test_a_keeper_that_leaves_gives_back_what_it_holds_and_no_delivery_counts(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, redelivery_limit=1)
        (position,) = await sent(client, name, 1)
        for _ in range(4):
            async with client.queue(name).receive(held=()) as incoming:
                event = await incoming.next(timeout=10)
                assert event.deliveries == 0
            async with client.queue(name).receive(held=at(position)) as incoming:
                assert incoming.held == at(position)
        async with client.queue(name).receive() as incoming:
            event = await incoming.next(timeout=10)
            assert event.deliveries == 0 and event.redelivered


async def test_a_keeper_loses_what_is_finished_and_what_others_hold(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, holdfast.connect(url) as other:
        first, second, third = await sent(client, name, 3)
        async with other.queue(name).receive(credit=2) as before:
            (await before.next(timeout=10)).confirm()
            await before.next(timeout=10)
            await before.settled()
            async with client.queue(name).receive(held=at(first, second, third)) as incoming:
                assert incoming.lost.without(at(third)) == at(first, second)
                assert incoming.held.without(at(third)) == Ranges()


async def test_who_says_nothing_of_holding_holds_nothing(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await sent(client, name, 2)
        async with client.queue(name).receive() as incoming:
            assert incoming.held == Ranges()
            assert await received(incoming, 2) == [0, 1]


async def test_a_keeper_takes_over_its_subscription_with_what_the_former_one_held(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, holdfast.connect(url) as again:
        await client.create_topic(name, redelivery_limit=1)
        incoming = client.subscribe(name, "relay", held=())
        await incoming.open()
        positions = [(await client.topic(name).send(number)).position for number in range(3)]
        assert await received(incoming, 3) == [0, 1, 2]

        for _ in range(3):
            async with again.subscribe(name, "relay", take_over=True, held=at(*positions[:2])) as second:
                assert second.held.without(at(positions[2])) == at(*positions[:2])
                event = await second.next(timeout=10)
                assert event.data == 2 and event.deliveries == 0
                assert second.identity == (await client.outcomes(name, [], subscription="relay")).identity
        async with again.subscribe(name, "relay", held=at(*positions)) as second:
            second.confirm(at(*positions))
        assert (await client.outcomes(name, at(*positions))).confirmed == at(*positions)
        await incoming.close()


async def test_a_queue_and_each_subscription_have_an_identity(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        queue = client.queue(name).receive()
        assert queue.identity == ""
        async with queue:
            assert queue.identity == f"{client.incarnation}:0"
        async with client.subscribe(f"{name}.>", "wide", held=()) as incoming:
            first = incoming.identity
            assert first == (await client.outcomes(f"{name}.>", [], subscription="wide")).identity
        await client.delete_subscription(f"{name}.>", "wide")
        async with client.subscribe(f"{name}.>", "wide") as incoming:
            assert incoming.identity != first
        await client.delete_subscription(f"{name}.>", "wide")


@pytest.mark.slow
async def test_many_verdicts_by_positions_are_applied_together(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        receipts = await client.queue(name).send_many(range(5_000))
        positions = [each.position for each in receipts]
        async with client.queue(name).receive(held=at(*positions)) as incoming:
            assert incoming.held.count == 5_000
            incoming.confirm(at(*positions[::2]))
            await incoming.settled()
            assert incoming.held == at(*positions[1::2])
        assert (await client.outcomes(name, at(*positions))).confirmed == at(*positions[::2])


async def test_positions_that_are_none_and_codes_that_nobody_dies_of_are_refused(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        with pytest.raises(BadSetting, match="held"):
            await client.queue(name).receive(held="all").open()  # type: ignore[arg-type]
        async with client.queue(name).receive() as incoming:
            with pytest.raises(BadSetting, match="boredom"):
                incoming.reject([], "why not", "boredom")
            with pytest.raises(BadSetting, match="pairs"):
                incoming.confirm([(2, 1)])


def test_the_blocking_twin_comes_holding_and_decides_by_positions(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        positions = [client.queue(name).send(number).position for number in range(3)]
        with client.queue(name).receive(held=lambda: at(*positions[:2])) as incoming:
            assert incoming.next(timeout=10).data == 2
            assert incoming.held == at(*positions) and incoming.lost == Ranges() and incoming.identity
            assert incoming.confirm(at(positions[0])) == at(positions[0])
            assert incoming.reject(at(positions[1]), "broken", "failed") == at(positions[1])
            assert incoming.release(at(positions[2])) == at(positions[2])
            incoming.settled()
        outcomes = client.outcomes(name, at(*positions))
        assert outcomes.confirmed == at(positions[0]) and outcomes.dead[0].code == "failed"


async def test_verdicts_on_held_events_can_wait_for_each_other(url: str, name: str) -> None:
    """A keeper decides on some while others still come in."""
    async with holdfast.connect(url) as client:
        positions = await sent(client, name, 2)
        async with client.queue(name).receive(held=at(positions[0])) as incoming:
            waiting = asyncio.create_task(client.outcomes(name, at(positions[0]), wait=60))
            assert (await incoming.next(timeout=10)).data == 1
            incoming.confirm(at(positions[0]))
            assert (await waiting).confirmed == at(positions[0])


async def test_a_session_that_a_process_before_left_is_gone_on_with_and_what_it_held_stays_held(url: str, name: str) -> None:
    async with holdfast.connect(url) as former, holdfast.connect(url) as client:
        await client.create_queue(name, redelivery_limit=1)
        positions = [(await client.queue(name).send(number)).position for number in range(4)]
        left = await former.session().open()
        incoming = await left.queue(name).receive(held=()).open()
        assert [(await incoming.next(timeout=20)).position for _ in range(2)] == positions[:2]

        kept = [(each, each) for each in positions[:2]]
        async with client.session(resume=left.id) as session, session.queue(name).receive(held=kept) as resumed:
            assert (session.id, resumed.lost) == (left.id, Ranges())
            rest = [await resumed.next(timeout=20) for _ in range(2)]
            assert [(each.position, each.deliveries) for each in rest] == [(each, 0) for each in positions[2:]]
            resumed.confirm([(each, each) for each in positions])
            await resumed.settled()


async def test_verdicts_and_transactions_of_a_later_process_are_not_taken_for_those_before(url: str, name: str) -> None:
    """Both are counted by the client, and one that was applied is not applied again."""
    async with holdfast.connect(url) as former, holdfast.connect(url) as client:
        await client.queue(name).send_many(range(8))
        left = await former.session().open()
        incoming = await left.queue(name).receive(held=()).open()
        for _ in range(6):
            event = await incoming.next(timeout=20)
            incoming.confirm([(event.position, event.position)])
            await incoming.settled()
            async with left.transaction() as tx:
                await tx.queue(name).send("of the former process")

        async with client.session(resume=left.id) as session, session.queue(name).receive(held=()) as resumed:
            event = await resumed.next(timeout=20)
            resumed.confirm([(event.position, event.position)])
            await resumed.settled()
            async with session.transaction() as tx:
                await tx.queue(name).send("of the later process")

        async with client.queue(name).browse() as events:
            waiting = [each.data async for each in events]
        assert waiting.count("of the later process") == 1
        assert waiting.count("of the former process") == 6
        assert len(waiting) == 8 - 7 + 7


async def test_what_is_no_id_of_a_session_is_refused_and_an_unknown_one_is_a_new_session(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        for wrong in ("{", '{"m1": 1}', "a\nb"):
            with pytest.raises(BadSetting, match="id of a session"):
                client.session(resume=wrong)
        async with client.session(resume="nobody-knows-it") as session:
            assert session.id != "nobody-knows-it"
            await session.queue(name).send(1)
