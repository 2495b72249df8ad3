"""Workers over every place: replies, transactions, an orderly end, topics and groups (E2)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast.errors import Closed
from holdfast.worker.worker import Worker
from tests.contract.places import name, server, url  # noqa: F401 (fixtures)
from tests.waiting import turn_loop, until
from tests.working import SOON, emptied, working

# --- replies and transactions ----------------------------------------------------------------------------------------


async def test_a_value_is_the_reply_where_one_is_wanted(url: str, name: str) -> None:  # noqa: F811
    worker = Worker(url)

    @worker.queue(name)
    def double(number: int) -> int:
        return 2 * number

    async with working(worker) as client:
        assert (await client.queue(name).request(21, timeout=10)).data == 42
        await client.queue(name).send(1)  # nobody wants to know
        await emptied(client, name)


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


# --- ending ----------------------------------------------------------------------------------------------------------


async def test_stopping_finishes_what_is_in_hand_and_gives_back_the_rest_uncounted(url: str, name: str) -> None:  # noqa: F811
    worker, began, go_on, finished = Worker(url), asyncio.Event(), asyncio.Event(), []

    @worker.queue(name, credit=10)
    async def handle(number: int) -> None:
        began.set()
        await go_on.wait()
        finished.append(number)

    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(5))
        await worker.start()
        await asyncio.wait_for(began.wait(), 10)
        stopping = asyncio.create_task(worker.stop())
        go_on.set()
        await asyncio.wait_for(stopping, 20)

        assert finished == [0]
        async with client.queue(name).receive() as incoming:
            rest = [await incoming.next(10) for _ in range(4)]
            assert [(event.data, event.deliveries) for event in rest] == [(1, 0), (2, 0), (3, 0), (4, 0)]


@pytest.mark.parametrize("credit", [None, 10])
async def test_stopping_gives_back_what_was_prefetched_while_handlers_finish(url: str, name: str, credit: int | None) -> None:  # noqa: F811
    worker, began, go_on = Worker(url), asyncio.Event(), asyncio.Event()

    @worker.queue(name, credit=credit)
    async def handle(number: int) -> None:
        began.set()
        await go_on.wait()

    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(5))
        await worker.start()
        await asyncio.wait_for(began.wait(), 10)
        stopping = asyncio.create_task(worker.stop())
        async with client.queue(name).receive() as incoming:
            rest = [await incoming.next(20) for _ in range(4)]

            assert sorted((event.data, event.deliveries) for event in rest) == [(1, 0), (2, 0), (3, 0), (4, 0)]
            assert not stopping.done()
        go_on.set()
        await asyncio.wait_for(stopping, 20)
        assert (await client.describe(name))["waiting"] == 4  # the one in hand was finished


async def test_a_handler_that_outlasts_the_grace_is_cancelled_and_its_event_comes_again(url: str, name: str) -> None:  # noqa: F811
    worker, began = Worker(url, grace=0.05), asyncio.Event()

    @worker.queue(name)
    async def handle(data: Any) -> None:
        began.set()
        await asyncio.Event().wait()

    async with holdfast.connect(url) as client:
        await client.queue(name).send("long")
        await worker.start()
        await asyncio.wait_for(began.wait(), 10)
        await asyncio.wait_for(worker.stop(), 20)

        async with client.queue(name).receive() as incoming:
            event = await incoming.next(10)
            assert (event.data, event.deliveries) == ("long", 1)


async def test_hooks_frame_the_work_and_the_client_is_there_for_them(url: str, name: str) -> None:  # noqa: F811
    worker, told = Worker(url), []

    @worker.queue(name)
    async def handle(data: Any) -> None:
        told.append("event")

    @worker.on_start
    async def begin(client: holdfast.Client) -> None:
        await client.queue(name).send(1)
        told.append("start")

    @worker.on_stop
    def end() -> None:
        told.append("stop")

    with pytest.raises(Closed, match="does not run"):
        _ = worker.client
    async with worker.lifespan():
        await emptied(worker.client, name)

    assert told == ["start", "event", "stop"]


# --- topics, groups, many --------------------------------------------------------------------------------------------


async def test_a_topic_s_subscription_remembers_and_its_workers_share_it(url: str, name: str) -> None:  # noqa: F811
    got: list[int] = []

    def made() -> Worker:
        worker = Worker(url)

        @worker.topic(f"{name}.*", subscription="audit", selector="kind = 'price'")
        async def handle(number: int) -> None:
            got.append(number)

        return worker

    async with holdfast.connect(url) as client:
        async with working(made()):
            pass
        for number in range(6):
            await client.topic(f"{name}.eu").send(number, properties={"kind": "price" if number % 2 else "other"})

        async with working(made()), working(made()):
            await until(lambda: len(got) >= 3, "what waited was handled")

    assert sorted(got) == [1, 3, 5]


async def test_events_of_one_group_are_handled_one_after_the_other(url: str, name: str) -> None:  # noqa: F811
    worker, active, seen = Worker(url), set(), []

    @worker.queue(name, concurrency=8)
    async def handle(number: int, event: holdfast.ReceivedEvent) -> None:
        assert event.group not in active
        active.add(event.group)
        await turn_loop(3)
        active.discard(event.group)
        seen.append((event.group, number))

    async with working(worker) as client:
        for number in range(20):
            await client.queue(name).send(number, group="ab"[number % 2])
        await emptied(client, name)

    for group in "ab":
        numbers = [number for of, number in seen if of == group]
        assert numbers == sorted(numbers)
    assert len(seen) == 20


async def test_many_are_handled_at_once(name: str) -> None:  # noqa: F811
    worker, active, most = Worker("memory:"), 0, 0
    all_here = asyncio.Event()

    @worker.queue(name, concurrency=8)
    async def handle(number: int) -> None:
        nonlocal active, most
        active += 1
        most = max(most, active)
        if active == 8:
            all_here.set()
        await all_here.wait()
        active -= 1

    async with working(worker) as client:
        await client.queue(name).send_many(range(32))
        await emptied(client, name)

    assert most == 8


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


async def test_a_transaction_that_is_refused_is_tried_again_after_a_pause(name: str) -> None:  # noqa: F811
    worker, tries = Worker("memory:"), []

    @worker.queue(name, transactional=True, backoff=(0.2, 0.2))
    async def handle(number: int, tx: holdfast.Transaction) -> None:
        tries.append(asyncio.get_running_loop().time())
        await tx.queue(f"{name}-out").send(number)

    async with working(worker) as client:
        await client.create_topic(f"{name}-out")
        await client.queue(name).send(7)
        await until(lambda: len(tries) >= 3, "it was tried again")

    assert tries[2] - tries[0] > 0.3
