"""Workers over every place: starting, and an orderly end (E2)."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.errors import Closed, TimedOut
from holdfast.worker.worker import Worker
from tests.contract.places import name, server, url  # noqa: F401 (fixtures)
from tests.server_process import ServerProcess
from tests.waiting import turn_loop, until
from tests.working import emptied


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


@pytest.mark.parametrize("is_transactional", [False, True])
async def test_a_plain_function_that_outlasts_the_grace_is_left_and_nobody_else_has_its_event_while_it_runs(
    url: str,  # noqa: F811
    name: str,  # noqa: F811
    is_transactional: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker, began, go_on = Worker(url, grace=0.05), threading.Event(), threading.Event()

    @worker.queue(name, transactional=is_transactional)
    def handle(data: Any) -> None:
        began.set()
        assert go_on.wait(60)

    async with holdfast.connect(url) as client:
        receipt = await client.queue(name).send("long")
        await worker.start()
        await until(began.is_set, "it is at work")
        await asyncio.wait_for(worker.stop(), 20)

        assert [(each.handler.split()[0], each.event_id) for each in worker.left] == [("handler", receipt.id)]
        assert f"is still at work on event {receipt.id}" in caplog.text
        async with client.queue(name).receive() as incoming:
            await client.queue(name).send("next")
            assert (await incoming.next(10)).data == "next"  # and the one before it is with the function
            with pytest.raises(TimedOut):
                await incoming.next(0.1)
        go_on.set()
        await until(lambda: not worker._leaving, "it returned, and its event is confirmed")
        assert (await client.describe(name))["waiting"] == 1


async def test_a_handler_that_does_not_let_itself_be_cancelled_is_left(
    name: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("holdfast.worker.service.CANCELLED_S", 0.05)
    worker, began, go_on = Worker("memory:", grace=0.05), asyncio.Event(), asyncio.Event()

    @worker.queue(name)
    async def handle(data: Any) -> None:
        began.set()
        while not go_on.is_set():
            with suppress(asyncio.CancelledError):
                await go_on.wait()

    await worker.start()
    await worker.client.queue(name).send("stubborn")
    await asyncio.wait_for(began.wait(), 10)
    await asyncio.wait_for(worker.stop(), 20)

    assert len(worker.left) == 1
    go_on.set()
    await until(lambda: not worker._leaving, "it returned")


async def test_stopping_twice_at_once_stops_once_and_both_wait_for_it(name: str) -> None:  # noqa: F811
    worker, stops = Worker("memory:"), []
    worker.queue(name)(lambda data: None)

    @worker.on_stop
    async def stopped() -> None:
        await turn_loop(5)
        stops.append(worker.client)

    await worker.stop()
    await worker.start()
    await asyncio.gather(worker.stop(), worker.stop())
    await worker.stop()

    assert len(stops) == 1


async def test_a_worker_that_runs_or_starts_is_not_started_again(name: str) -> None:  # noqa: F811
    worker, starts = Worker("memory:"), []
    worker.queue(name)(lambda data: None)
    worker.on_start(lambda: starts.append(1))

    outcomes = await asyncio.gather(worker.start(), worker.start(), return_exceptions=True)
    with pytest.raises(Closed, match="make another Worker"):
        async with worker.lifespan():
            raise AssertionError("never entered")

    assert [type(outcome) for outcome in outcomes] == [type(None), Closed]
    assert starts == [1]
    await worker.stop()
    async with worker.lifespan():
        assert starts == [1, 1]


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


async def test_a_worker_whose_server_is_gone_stops_all_the_same_and_says_what_is_lost(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("holdfast.worker.service.CLOSE_S", 0.05)
    began, go_on = asyncio.Event(), asyncio.Event()
    with ServerProcess(tmp_path / "data") as process:
        worker = Worker(process.url)

        @worker.queue("jobs")
        async def handle(data: Any) -> None:
            began.set()
            await go_on.wait()

        await worker.start()
        await worker.client.queue("jobs").send("done, and nobody heard")
        await asyncio.wait_for(began.wait(), 10)
        process.kill()
        await until(lambda: not worker.client.is_linked, "the link is lost")
        go_on.set()
        await asyncio.wait_for(worker.stop(), 20)

    assert "the last verdicts may be lost, and their events come again" in caplog.text
    assert worker.left == []
