"""Transactions over every place a client can find its events at (B11): all or nothing, for sends and confirms."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
import holdfast.blocking
from holdfast.client.client import Client
from holdfast.destination.command import RANGES_MAX
from holdfast.errors import Refused, TimedOut, TooLarge, TransactionAborted
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]


class Interrupted(Exception):
    """What a program raises in the middle."""


async def waiting(client: Client, destination: str) -> int:
    return int((await client.describe(destination))["waiting"])


async def test_what_is_sent_in_a_transaction_is_seen_by_nobody_before_the_commit(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        async with client.transaction() as tx:
            await tx.queue(name).send("inside", type="order", properties={"amount": 7})
            await client.queue(name).send("outside")
            assert (await incoming.next(10)).data == "outside"
            with pytest.raises(TimedOut):
                await incoming.next(0.05)

        event = await incoming.next(10)
        assert (event.data, event.type, event.properties) == ("inside", "order", {"amount": 7})


async def test_a_committed_transaction_sends_to_queues_and_topics_and_confirms_what_it_lists(url: str, name: str) -> None:
    async with (
        holdfast.connect(url) as client,
        client.subscribe(f"{name}-log", name="audit") as audit,
        client.queue(name).receive() as incoming,
    ):
        await client.queue(name).send_many([1, 2])
        first, second = await incoming.next(10), await incoming.next(10)

        async with client.transaction() as tx:
            await tx.queue(f"{name}-out").send_many([10, 20, 30])
            await tx.topic(f"{name}-log").send("done")
            await tx.confirm(first)

        assert (await audit.next(10)).data == "done"
        assert await waiting(client, f"{name}-out") == 3
        assert await waiting(client, name) == 1, "commit confirms only what was listed"
        await second.confirm()
        await incoming.settled()
        assert await waiting(client, name) == 0


async def test_an_exception_rolls_back_and_what_was_handed_to_its_receiver_comes_again_prefetched_too(
    url: str, name: str
) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send_many([1, 2, 3])
        with pytest.raises(Interrupted):
            async with client.transaction() as tx:
                await tx.queue(f"{name}-out").send("never")
                await tx.confirm(await incoming.next(10))
                raise Interrupted

        again = [await incoming.next(10) for _ in range(3)]

        assert [(event.data, event.deliveries) for event in again] == [(1, 1), (2, 0), (3, 0)]
        assert f"{name}-out" not in [each["name"] for each in await client.destinations()] or (
            await waiting(client, f"{name}-out") == 0
        )


async def test_after_a_rollback_any_recipient_of_the_queue_may_get_the_events(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.session() as other:
        await client.queue(name).send_many([1, 2])
        async with client.queue(name).receive() as first:
            tx = client.transaction()
            await tx.confirm(await first.next(10))
            await tx.rollback()

        async with other.queue(name).receive() as second:
            assert [((event := await second.next(10)).data, event.deliveries) for _ in range(2)] == [(1, 1), (2, 0)]


async def test_rolled_back_events_of_a_topic_come_again_to_the_same_subscription(url: str, name: str) -> None:
    async with (
        holdfast.connect(url) as client,
        client.subscribe(name, name="one") as one,
        client.subscribe(name, name="two") as two,
    ):
        await client.topic(name).send("news")
        tx = client.transaction()
        await tx.confirm(await one.next(10))
        await (await two.next(10)).confirm()
        await two.settled()

        await tx.rollback()

        assert (await one.next(10)).deliveries == 1
        with pytest.raises(TimedOut):
            await two.next(0.05)


async def test_a_large_transaction_of_many_parts_is_committed_whole_and_in_order(url: str, name: str) -> None:
    count = 30_000
    async with holdfast.connect(url) as client:
        async with client.transaction() as tx:
            for number in range(count):
                await tx.queue(name).send({"number": number, "pad": "x" * 100})

        async with client.queue(name).receive() as incoming:
            got = [(await incoming.next(10)).data["number"] for _ in range(count)]

    assert got == list(range(count))


async def test_order_within_a_destination_is_kept_across_priorities_and_delays_of_one_transaction(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        async with client.transaction() as tx:
            for number in range(4):
                await tx.queue(name).send(number, priority=4, delay_ms=number % 2)
        assert sorted([(await incoming.next(10)).data for _ in range(4)]) == [0, 1, 2, 3]


async def test_a_commit_that_confirms_what_another_has_finished_aborts_whole(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send(1)
        await client.create_queue(f"{name}-out")
        event = await incoming.next(10)
        tx = client.transaction()
        await tx.queue(f"{name}-out").send("never")
        await tx.confirm(event)
        incoming._receiver.verdicts.confirm(event.position, event.slice.generation)
        await incoming.settled()

        with pytest.raises(TransactionAborted, match="finished already"):
            await tx.commit()

        assert await waiting(client, f"{name}-out") == 0


async def test_a_commit_aborts_when_the_receiver_was_closed_before(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send(1)
        tx = client.transaction()
        async with client.queue(name).receive() as incoming:
            await tx.confirm(await incoming.next(10))

        with pytest.raises(TransactionAborted, match="given back before"):
            await tx.commit()

        async with client.queue(name).receive() as incoming:
            assert (await incoming.next(10)).data == 1


async def test_an_event_confirmed_in_a_transaction_cannot_be_decided_on_outside_of_it(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send(1)
        event = await incoming.next(10)
        async with client.transaction() as tx:
            await tx.confirm(event)
            await tx.confirm(event)
            for verdict in (event.confirm, event.release, lambda: event.reject("no")):
                with pytest.raises(Refused, match="confirmed in a transaction already"):
                    await verdict()
        assert await waiting(client, name) == 0


async def test_a_transaction_that_was_decided_takes_nothing_more(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        tx = client.transaction()
        await tx.queue(name).send(1)
        await tx.commit()
        for use in (tx.commit, tx.rollback, lambda: tx.queue(name).send(2)):
            with pytest.raises(Refused, match="was committed; begin a new one"):
                await use()
        tx = client.transaction()
        await tx.rollback()
        with pytest.raises(Refused, match="was rolled back; begin a new one"):
            await tx.queue(name).send(2)
        assert await waiting(client, name) == 1


async def test_an_event_of_another_session_is_refused(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.session() as other, other.queue(name).receive() as incoming:
        await client.queue(name).send(1)
        async with client.transaction() as tx:
            with pytest.raises(Refused, match="another session"):
                await tx.confirm(await incoming.next(10))


async def test_an_empty_transaction_asks_nobody(url: str) -> None:
    """Others write to the same channel now and then: a former client's session ends, a node says that it is there."""
    async with holdfast.connect(url) as client:

        async def appended() -> int:
            before = (await client.status())["applied"]
            async with client.transaction():
                pass
            return (await client.status())["applied"] - before

        assert 0 in [await appended() for _ in range(10)]


async def test_many_transactions_of_one_session_at_once_each_happen_once(url: str, name: str) -> None:
    async def one(number: int) -> None:
        async with client.transaction() as tx:
            await tx.queue(name).send(number)
            await tx.queue(f"{name}-copy").send(number)

    async with holdfast.connect(url) as client:
        await asyncio.gather(*(one(number) for number in range(200)))

        for queue in (name, f"{name}-copy"):
            async with client.queue(queue).receive() as incoming:
                assert sorted([(await incoming.next(10)).data for _ in range(200)]) == list(range(200))


async def test_a_small_transaction_is_two_commands_and_one_round_trip(name: str) -> None:
    async with holdfast.connect("memory:") as client:
        await client.queue(name).send("the session is known now")
        before = (await client.status())["applied"]
        async with client.transaction() as tx:
            await tx.queue(name).send_many(range(10))
        assert (await client.status())["applied"] - before == 2


async def test_a_transaction_to_a_destination_of_the_other_kind_is_aborted_with_the_reason(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        with pytest.raises(TransactionAborted, match="is a topic, not a queue"):
            async with client.transaction() as tx:
                await tx.queue(name).send(1)
                await tx.queue(f"{name}-other").send(1)


async def test_the_blocking_twin_commits_and_rolls_back(url: str, name: str) -> None:
    def program() -> None:
        with holdfast.blocking.connect(url) as client, client.queue(name).receive() as incoming:
            client.queue(name).send_many([1, 2])
            with pytest.raises(Interrupted), client.transaction() as tx:
                tx.queue(f"{name}-out").send("never")
                tx.confirm(incoming.next(10))
                raise Interrupted
            assert [incoming.next(10).data for _ in range(2)] == [1, 2]
            client.recover()
            with client.transaction() as tx:
                tx.queue(f"{name}-out").send("sent")
                tx.topic(f"{name}-log").send_many(["a", "b"])
                tx.confirm(incoming.next(10))
            assert client.describe(f"{name}-out")["waiting"] == 1
            assert client.describe(name)["waiting"] == 1

    await asyncio.to_thread(program)


async def test_more_scattered_confirms_than_one_commit_can_name_are_refused_and_nothing_happens(name: str) -> None:
    count = 2 * RANGES_MAX + 2
    async with holdfast.connect("memory:") as client, client.queue(name).receive(credit=2 * count) as incoming:
        await client.queue(name).send_many(range(count))
        tx = client.transaction()
        for number in range(count):
            event = await incoming.next(10)
            if number % 2:
                await tx.confirm(event)
        with pytest.raises(TooLarge, match="commit more often"):
            await tx.commit()
        assert await waiting(client, name) == count
