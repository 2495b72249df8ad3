"""Recovering a session (JMS 2.0 section 6.2.10): what was handed out and not confirmed is delivered again, in order."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

import holdfast
import holdfast.blocking
from holdfast.client.receiving.incoming import Incoming
from holdfast.errors import Closed, HoldfastError, Refused, TransactionAborted
from tests.contract.places import CuttingProxy, name, server, url
from tests.server_process import ServerProcess
from tests.waiting import turn_loop, until

__all__ = ["name", "server", "url"]


async def take(incoming: Incoming, count: int) -> list[holdfast.ReceivedEvent]:
    return [await incoming.next(timeout=20) for _ in range(count)]


async def test_what_was_not_confirmed_is_delivered_again_in_order_marked_redelivered(url: str, name: str) -> None:
    """JMS 6.2.10: recover restarts delivery with the oldest unacknowledged message, marked as redelivered."""
    async with holdfast.connect(url) as client, client.session(confirm="client") as session:
        await client.queue(name).send_many(range(10))
        async with session.queue(name).receive() as incoming:
            await (await take(incoming, 3))[-1].confirm()
            await take(incoming, 4)

            await session.recover()
            again = await take(incoming, 7)

            assert [event.data for event in again] == list(range(3, 10))
            assert [event.deliveries for event in again] == [1] * 4 + [0] * 3
            assert [event.redelivered for event in again] == [True] * 4 + [False] * 3
            await again[-1].confirm()
        assert (await client.describe(name))["waiting"] == 0


@pytest.mark.parametrize("mode", ["event", "auto", "duplicates-ok", "client"])
async def test_recovering_twice_counts_twice_in_every_mode(url: str, name: str, mode: str) -> None:
    async with holdfast.connect(url) as client, client.session(confirm=mode) as session:  # type: ignore[arg-type]
        await client.queue(name).send_many(range(3))
        async with session.queue(name).receive() as incoming:
            for deliveries in range(3):
                (event,) = await take(incoming, 1)

                assert (event.data, event.deliveries) == (0, deliveries)
                await session.recover()
            for event in await take(incoming, 3):
                await event.confirm()
        assert (await client.describe(name))["waiting"] == 0


async def test_a_client_recovers_its_own_session_and_no_other(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.session() as session:
        await client.queue(f"{name}-a").send("a")
        await client.queue(f"{name}-b").send("b")
        async with client.queue(f"{name}-a").receive() as mine, session.queue(f"{name}-b").receive() as apart:
            await take(mine, 1)
            (kept,) = await take(apart, 1)

            await client.recover()

            assert (await take(mine, 1))[0].redelivered
            await kept.confirm()
            await apart.settled(timeout=10)
            assert (await client.describe(f"{name}-b"))["waiting"] == 0


async def test_what_has_a_verdict_is_not_recovered(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send_many(["confirmed", "rejected", "undecided", "unseen"], timeout=10)
        confirmed, rejected, _ = await take(incoming, 3)
        await confirmed.confirm()
        await rejected.reject("of no use")

        await client.recover()

        assert [(event.data, event.deliveries) for event in await take(incoming, 2)] == [("undecided", 1), ("unseen", 0)]


async def test_all_receivers_of_a_session_recover_together_and_nothing_overtakes(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.session() as session:
        await client.queue(name).send_many(range(60))
        receivers = [await session.queue(name).receive(credit=10).open() for _ in range(3)]
        for incoming in receivers:
            await take(incoming, 4)

        await session.recover()
        seen: list[list[int]] = [[] for _ in receivers]
        while sum(map(len, seen)) < 60:
            for incoming, mine in zip(receivers, seen, strict=True):
                try:
                    event = await incoming.next(timeout=0.05)
                except HoldfastError:
                    continue
                mine.append(event.data)
                await event.confirm()

        assert sorted(number for mine in seen for number in mine) == list(range(60))
        assert all(mine == sorted(mine) for mine in seen)


async def test_a_non_durable_subscription_loses_nothing_by_recovering(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.subscribe(name) as incoming:
        await client.topic(name).send_many(range(5))
        await take(incoming, 2)

        await client.recover()

        assert [event.data for event in await take(incoming, 5)] == list(range(5))


async def test_a_durable_subscription_recovers(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.subscribe(name, "audit") as incoming:
        await client.topic(name).send_many(range(3))
        await take(incoming, 3)

        await client.recover()

        assert [(event.data, event.deliveries) for event in await take(incoming, 3)] == [(0, 1), (1, 1), (2, 1)]


async def test_a_verdict_on_an_event_from_before_is_refused_and_the_event_stays(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send(1)
        (event,) = await take(incoming, 1)
        await client.recover()

        with pytest.raises(Refused, match="recovered before this verdict"):
            await event.confirm()

        assert (await client.describe(name))["waiting"] == 1


async def test_an_event_recovered_as_often_as_allowed_goes_to_the_dead_events(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, redelivery_limit=1)
        await client.queue(name).send("poison", subject=name)
        async with client.queue(name).receive() as incoming, client.queue("_DMQ").receive() as dead:
            for _ in range(2):
                await take(incoming, 1)
                await client.recover()

            buried = ""
            while buried != name:  # other tests' dead events may lie there
                (event,) = await take(dead, 1)
                buried = event.subject or ""
                await event.confirm()
        assert (await client.describe(name))["waiting"] == 0


async def test_credit_is_whole_again_after_recovering(url: str, name: str) -> None:
    """Whoever recovers again and again is handed events as before."""
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(50))
        async with client.queue(name).receive(credit=4) as incoming:
            for _ in range(20):
                await take(incoming, 3)
                await client.recover()
            for event in await take(incoming, 50):
                await event.confirm()
        assert (await client.describe(name))["waiting"] == 0


async def test_many_recoveries_at_once_are_one_after_the_other(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(20))
        async with client.queue(name).receive() as incoming:
            await take(incoming, 5)

            await asyncio.gather(*(client.recover() for _ in range(5)))

            again = await take(incoming, 20)
            assert [event.data for event in again] == list(range(20))
            assert [event.deliveries for event in again] == [1] * 5 + [0] * 15


async def test_whoever_waits_for_an_event_while_the_session_is_recovered_gets_one(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        waiting = asyncio.create_task(incoming.next(timeout=20))
        await turn_loop()
        await client.recover()
        await client.queue(name).send("late")

        assert (await waiting).data == "late"


async def test_a_receiver_that_is_closed_while_the_session_is_recovered_stays_closed(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(10))
        for turns in range(12):
            incoming = await client.queue(name).receive().open()
            await take(incoming, 2)
            recovering = asyncio.create_task(client.recover())
            await turn_loop(turns)
            await incoming.close()
            await recovering

        async with client.queue(name).receive() as incoming:  # nobody else holds any of them
            assert [event.data for event in await take(incoming, 10)] == list(range(10))
        assert (await client.describe(name))["receivers"] == 0


async def test_a_queue_that_is_deleted_while_the_session_is_recovered_is_not_created_again(name: str) -> None:
    async with holdfast.connect("memory:") as client, client.session() as session:
        for turns in range(8):
            await client.queue(name).send_many(range(3))
            incoming = await session.queue(name).receive().open()
            await take(incoming, 1)
            deleting = asyncio.create_task(client.delete(name, force=True))
            await turn_loop(turns)
            with contextlib.suppress(HoldfastError):
                await session.recover()
            await deleting
            with contextlib.suppress(HoldfastError):
                await incoming.close()

            assert name not in [each["name"] for each in await client.destinations()]


async def test_recovering_aborts_a_transaction_that_confirms_what_is_given_back(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send("once")
        (event,) = await take(incoming, 1)

        with pytest.raises(TransactionAborted):
            async with client.transaction() as tx:
                await tx.confirm(event)
                await tx.queue(f"{name}-out").send("never")
                await client.recover()

        assert (await take(incoming, 1))[0].redelivered
        assert f"{name}-out" not in [each["name"] for each in await client.destinations() if each["waiting"]]


async def test_recovering_what_has_no_receivers_or_closed_ones_does_nothing(name: str) -> None:
    async with holdfast.connect("memory:") as client:
        await client.recover()
        async with client.queue(name).receive():
            pass
        await client.recover()
    with pytest.raises(Closed):
        await client.recover()


async def test_a_link_that_is_lost_while_recovering_changes_nothing(server: ServerProcess, name: str) -> None:
    async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url, timeout=20) as client:
        await client.queue(name).send_many(range(30))
        async with client.queue(name).receive() as incoming:
            for times in range(5):
                taken = await take(incoming, 5)
                assert [event.data for event in taken] == list(range(5))
                assert all(event.deliveries >= times for event in taken)
                recovering = asyncio.create_task(client.recover())
                await turn_loop(times)
                proxy.cut()
                await recovering
            for event in await take(incoming, 30):
                await event.confirm()
        assert (await client.describe(name))["waiting"] == 0


async def test_a_recovery_that_cannot_be_finished_says_so_and_may_be_asked_for_again(server: ServerProcess, name: str) -> None:
    async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url, timeout=20) as client:
        await client.queue(name).send_many(range(10))
        async with client.queue(name).receive() as incoming:
            await take(incoming, 3)
            proxy.is_refusing = True
            proxy.cut()
            await until(lambda: not client.is_linked, "the client notices the cut")

            with pytest.raises(HoldfastError):
                await client.recover(timeout=0.1)
            proxy.is_refusing = False
            await client.recover()

            again = await take(incoming, 10)
            assert [event.data for event in again] == list(range(10))
            assert [event.deliveries > 0 for event in again] == [True] * 3 + [False] * 7


def test_the_blocking_session_recovers_what_was_looked_at_and_what_was_not(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client, client.session(confirm="client") as session:
        client.queue(name).send_many(range(10))
        with session.queue(name).receive() as incoming:
            events = [incoming.next(timeout=10) for _ in range(3)]
            events[0].confirm()
            for _ in range(2):
                incoming.next(timeout=10)

            session.recover()
            again = [incoming.next(timeout=10) for _ in range(7)]

            assert [(event.data, event.deliveries) for event in again] == [
                (3, 1), (4, 1), (5, 0), (6, 0), (7, 0), (8, 0), (9, 0)
            ]  # fmt: skip
            again[-1].confirm()
        assert client.describe(name)["waiting"] == 0
