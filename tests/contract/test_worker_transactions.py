"""Workers over every place: transactions, which are all or nothing (E2)."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast.errors import HoldfastError
from holdfast.worker.worker import Worker
from tests.contract.places import name, server, url  # noqa: F401 (fixtures)
from tests.working import SOON, emptied, working


async def test_what_a_transactional_handler_sends_and_its_confirm_happen_together(url: str, name: str) -> None:  # noqa: F811
    worker, tries = Worker(url), []

    @worker.queue(name, transactional=True, concurrency=3, backoff=SOON)
    async def handle(number: int, tx: holdfast.Transaction, event: holdfast.ReceivedEvent) -> int:
        await tx.queue(f"{name}-out").send(number)
        tries.append(number)
        if number % 2 and not event.deliveries:
            raise ValueError("odd, for the first time")
        return number + 1

    async with working(worker) as client:
        assert (await client.queue(name).request(0, timeout=10)).data == 1
        await client.queue(name).send_many(range(1, 6))
        await emptied(client, name)
        async with client.queue(f"{name}-out").receive() as incoming:
            sent = [(await incoming.next(10)).data for _ in range(6)]

        assert sorted(sent) == [0, 1, 2, 3, 4, 5]  # each once, although the odd ones were sent twice
        assert sorted(tries) == [0, 1, 1, 2, 3, 3, 4, 5, 5]


async def test_a_request_whose_sender_is_gone_is_carried_out_without_a_reply(url: str, name: str) -> None:  # noqa: F811
    worker, began, go_on = Worker(url), asyncio.Event(), asyncio.Event()

    @worker.queue(name, transactional=True, retries=1, backoff=SOON)
    async def handle(number: int, tx: holdfast.Transaction) -> int:
        await tx.queue(f"{name}-out").send(number)
        began.set()
        await go_on.wait()
        return number

    async with working(worker) as client:
        async with holdfast.connect(url) as sender:
            asked = asyncio.create_task(sender.queue(name).request(7, timeout=60))
            await asyncio.wait_for(began.wait(), 10)
        with pytest.raises(HoldfastError):
            await asked
        go_on.set()
        async with client.queue(f"{name}-out").receive() as incoming:
            assert (await incoming.next(10)).data == 7
        await emptied(client, name)
        assert not [event for event in await client.dead.list() if event.destination == name]


async def test_a_handler_that_ends_its_transaction_is_told_so_with_its_dead_event(url: str, name: str) -> None:  # noqa: F811
    worker = Worker(url)

    @worker.queue(name, transactional=True, retries=1, backoff=SOON)
    async def handle(number: int, tx: holdfast.Transaction) -> None:
        async with tx:
            await tx.queue(f"{name}-out").send(number)

    async with working(worker) as client:
        await client.queue(name).send(7)
        await emptied(client, name)

        (dead,) = [event for event in await client.dead.list() if event.destination == name]
        assert "ended its transaction, which the worker commits" in dead.dead[0].reason
        assert dead.dead[0].deliveries == 2


async def test_a_transaction_that_is_refused_counts_as_a_failure_and_its_event_is_dead_with_the_reason(
    url: str,  # noqa: F811
    name: str,  # noqa: F811
) -> None:
    worker, tries = Worker(url, dice=lambda: 0.0), []

    @worker.queue(name, transactional=True, retries=2, backoff=(0.1, 0.1))
    async def handle(number: int, tx: holdfast.Transaction, event: holdfast.ReceivedEvent) -> None:
        tries.append((event.deliveries, asyncio.get_running_loop().time()))
        await tx.queue(f"{name}-out").send(number)

    async with working(worker) as client:
        await client.create_topic(f"{name}-out")
        await client.queue(name).send(7)
        await emptied(client, name)

        (dead,) = [event for event in await client.dead.list() if event.destination == name]
        assert [deliveries for deliveries, _ in tries] == [0, 1, 2]
        assert tries[2][1] - tries[0][1] > 0.15
        assert "is a topic" in dead.dead[0].reason


async def test_a_handler_that_fails_after_it_confirmed_in_its_transaction_is_tried_again_and_then_dead(
    url: str,  # noqa: F811
    name: str,  # noqa: F811
) -> None:
    worker = Worker(url)

    @worker.queue(name, transactional=True, retries=2, backoff=SOON)
    async def handle(number: int, tx: holdfast.Transaction, event: holdfast.ReceivedEvent) -> None:
        await tx.queue(f"{name}-out").send(number)
        await tx.confirm(event)
        raise ValueError("too late")

    async with working(worker) as client:
        await client.queue(name).send(7)
        await emptied(client, name)

        (dead,) = [event for event in await client.dead.list() if event.destination == name]
        assert dead.dead[0].reason.startswith("ValueError: too late")
        assert dead.dead[0].deliveries == 3
        assert not [each for each in await client.destinations() if each["name"] == f"{name}-out" and each["waiting"]]


async def test_a_handler_that_confirms_and_commits_by_itself_has_finished_its_event(
    url: str,  # noqa: F811
    name: str,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker = Worker(url)

    @worker.queue(name, transactional=True, retries=0)
    async def handle(number: int, tx: holdfast.Transaction, event: holdfast.ReceivedEvent) -> None:
        await tx.queue(f"{name}-out").send(number)
        await tx.confirm(event)
        await tx.commit()

    async with working(worker) as client:
        await client.queue(name).send(7)
        await emptied(client, name)
        async with client.queue(f"{name}-out").receive() as incoming:
            assert (await incoming.next(10)).data == 7

    assert not [record for record in caplog.records if record.name == "holdfast.worker"]
