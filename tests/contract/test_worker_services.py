"""Workers over every place: replies, topics, groups, and many at once (E2)."""

from __future__ import annotations

import asyncio

import holdfast
from holdfast.worker.worker import Worker
from tests.contract.places import name, server, url  # noqa: F401 (fixtures)
from tests.waiting import turn_loop, until
from tests.working import emptied, working


async def test_a_value_is_the_reply_where_one_is_wanted(url: str, name: str) -> None:  # noqa: F811
    worker = Worker(url)

    @worker.queue(name)
    def double(number: int) -> int:
        return 2 * number

    async with working(worker) as client:
        assert (await client.queue(name).request(21, timeout=10)).data == 42
        await client.queue(name).send(1)  # nobody wants to know
        await emptied(client, name)


async def test_a_handler_whose_subscription_another_has_does_not_hold_up_the_others(url: str, name: str) -> None:  # noqa: F811
    worker, got = Worker(url), []
    worker.topic(f"{name}-topic", subscription="alone", shared=False)(lambda data: got.append(data))
    worker.queue(name)(lambda data: got.append(data))

    async with holdfast.connect(url) as client:
        async with client.subscribe(f"{name}-topic", "alone"):
            await asyncio.wait_for(worker.start(), 20)
            await client.queue(name).send(1)
            await until(lambda: got == [1], "the queue is handled")
        await client.topic(f"{name}-topic").send(2)
        await until(lambda: got == [1, 2], "the subscription was taken over")
        await worker.stop()


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
