"""Credit, over every place a client can find its events at: work is shared, and nobody sits on what he does not take (B12)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.client.receiving.credit.credit_window import STALL_S, START_EVENTS
from holdfast.errors import TimedOut
from tests.contract.places import name, server, url
from tests.server_process import ServerProcess
from tests.waiting import until, wait_until

pytestmark = pytest.mark.slow

__all__ = ["name", "server", "url"]

JOBS, JOB_S = 200, 0.02
EVENTS = 20


async def work(session: holdfast.Session, name: str, done: list[int], others: list[int]) -> None:
    async with session.queue(name).receive() as incoming:
        while len(done) + len(others) < JOBS:
            try:
                event = await incoming.next(timeout=0.2)
            except TimedOut:
                continue
            await asyncio.sleep(JOB_S)
            done.append(event.data)
            await event.confirm()


async def test_a_worker_that_comes_a_tenth_of_a_second_later_gets_its_share_of_jobs_of_20_ms(url: str, name: str) -> None:
    first: list[int] = []
    second: list[int] = []
    async with holdfast.connect(url) as client, client.session() as one, client.session() as other:
        await client.queue(name).send_many(range(JOBS))
        async with asyncio.timeout(60), asyncio.TaskGroup() as workers:
            workers.create_task(work(one, name, first, second))
            await until(lambda: len(first) >= 5, "the first worker is at work")
            workers.create_task(work(other, name, second, first))

    assert sorted(first + second) == list(range(JOBS))
    assert min(len(first), len(second)) >= 80, (len(first), len(second))


def data_of(events: Iterable[holdfast.ReceivedEvent | holdfast.blocking.ReceivedEvent]) -> list[tuple[object, bool, int]]:
    return [(event.data, event.redelivered, event.deliveries) for event in events]


HELD = range(2, START_EVENTS)  # by a program that has taken the first event, but for the one that it keeps
OTHERS = [(each, False, 0) for each in range(START_EVENTS, EVENTS)]
RETURNED = [(each, True, 0) for each in HELD]


async def test_what_a_stalled_program_does_not_take_goes_to_others_uncounted_and_marked(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.session() as one, client.session() as other:
        await client.queue(name).send_many(range(EVENTS))
        async with one.queue(name).receive() as stalled:
            first = await stalled.next(timeout=10)
            async with other.queue(name).receive() as incoming:
                taken = [await incoming.next(timeout=10) for _ in range(len(OTHERS) + len(HELD))]
                for event in taken:
                    await event.confirm()

                assert data_of(taken) == OTHERS + RETURNED
            await first.confirm()
            await client.queue(name).send_many(range(EVENTS))
            again = [await stalled.next(timeout=10) for _ in range(1 + EVENTS)]
            for event in again:
                await event.confirm()

            assert data_of(again) == [(each, False, 0) for each in (1, *range(EVENTS))]


def test_the_same_is_true_of_a_program_without_a_loop(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        client.queue(name).send_many(range(EVENTS))
        with client.queue(name).receive() as stalled:
            stalled.next(timeout=10).confirm()
            with client.queue(name).receive() as incoming:
                taken = [incoming.next(timeout=10) for _ in range(len(OTHERS) + len(HELD))]
                for event in taken:
                    event.confirm()

                assert data_of(taken) == OTHERS + RETURNED
            client.queue(name).send_many(range(EVENTS))
            again = [stalled.next(timeout=10) for _ in range(1 + EVENTS)]
            for event in again:
                event.confirm()

            assert data_of(again) == [(each, False, 0) for each in (1, *range(EVENTS))]


async def test_in_client_mode_a_confirm_is_not_about_what_was_given_back(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(START_EVENTS))
        async with client.queue(name).receive(confirm="client") as stalled:
            first = await stalled.next(timeout=10)
            async with client.queue(name).receive(confirm="event") as incoming:
                back = [await incoming.next(timeout=10) for _ in HELD]
                await first.confirm()
                await stalled.settled(timeout=10)

                assert data_of(back) == RETURNED
                for event in back:
                    await event.confirm()
                await incoming.settled(timeout=10)
        assert (await client.describe(name))["waiting"] == 1


async def test_an_explicit_credit_is_exact_and_nothing_of_it_is_given_back(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.session() as one, client.session() as other:
        await client.queue(name).send_many(range(EVENTS))
        async with one.queue(name).receive(credit=7) as stalled:
            await stalled.next(timeout=10)
            async with other.queue(name).receive() as incoming:
                taken = [await incoming.next(timeout=10) for _ in range(EVENTS - 7)]
                for event in taken:
                    await event.confirm()

                assert [event.data for event in taken] == list(range(7, EVENTS))
                with pytest.raises(TimedOut):
                    await incoming.next(timeout=2 * STALL_S)


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as running:
        yield running


async def test_what_came_back_is_marked_after_the_server_was_killed_too(own_server: ServerProcess) -> None:
    async with holdfast.connect(own_server.url, timeout=30) as client, holdfast.connect(own_server.url, timeout=30) as other:
        await client.queue("q").send_many(range(EVENTS))
        async with client.queue("q").receive() as stalled:
            first = await stalled.next(timeout=10)
            await until(lambda: stalled._receiver.prefetch.kept is not None, "the program has stalled")
            await stalled.settled()
            await asyncio.to_thread(own_server.kill)
            await asyncio.to_thread(own_server.start)

            async with other.queue("q").receive() as incoming:
                taken = [await incoming.next(timeout=30) for _ in range(len(OTHERS) + len(HELD))]
                for event in taken:
                    await event.confirm()
            assert data_of(taken) == RETURNED + OTHERS
            await first.confirm()
            assert data_of([await stalled.next(timeout=10)]) == [(1, False, 0)]


def test_a_receiver_that_nobody_else_can_help_gives_nothing_back(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        client.create_topic(name)
        with client.subscribe(name, "alone") as incoming:
            client.topic(name).send_many(range(EVENTS))
            assert incoming.next(timeout=10).data == 0
            receiver = incoming._opened()
            wait_until(lambda: receiver.buffer.ahead() == START_EVENTS - 1, "the rest of its credit has come")

            assert receiver.prefetch._timer is None
