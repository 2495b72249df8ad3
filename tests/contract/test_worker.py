"""Workers over every place: handlers, arguments, retries, and what is refused (E2)."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.errors import BadSelector, BadSetting, Closed
from holdfast.worker.attempt import Reject, Retry
from holdfast.worker.worker import Worker
from tests.contract.places import name, server, url  # noqa: F401 (fixtures)
from tests.waiting import turn_loop, until
from tests.working import SOON, emptied, reasons, working


class Order(msgspec.Struct):
    sku: int
    count: int = 1


@dataclasses.dataclass
class Price:
    symbol: str
    amount: float


class Model:
    """Made as a pydantic model is."""

    def __init__(self, number: int) -> None:
        self.number = number

    @classmethod
    def model_validate(cls, value: int) -> Model:
        return cls(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and other.number == self.number

    __hash__ = None  # type: ignore[assignment]


class Other(msgspec.Struct):
    name: str


# --- arguments -------------------------------------------------------------------------------------------------------


async def test_a_handler_gets_what_its_annotations_ask_for(url: str, name: str) -> None:  # noqa: F811
    worker, got = Worker(url), []

    @worker.queue(name)
    async def handle(order: Order, event: holdfast.ReceivedEvent, client: holdfast.Client) -> None:
        got.append((order, event.type, client is worker.client))

    async with working(worker) as client:
        await client.queue(name).send({"sku": 7}, type="order.placed")
        await emptied(client, name)

    assert got == [(Order(7), "order.placed", True)]


@pytest.mark.parametrize(
    ("annotation", "sent", "expected"),
    [
        (Price, {"symbol": "X", "amount": 2}, Price("X", 2.0)),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (str, "text", "text"),
        (bytes, b"bytes", b"bytes"),
        (Any, [1, 2], [1, 2]),
        (Order | None, None, None),
        (list[Model], [1, 2], [Model(1), Model(2)]),
    ],
)
async def test_data_comes_as_the_type_that_is_asked_for(annotation: Any, sent: Any, expected: Any, name: str) -> None:  # noqa: F811
    worker, got = Worker("memory:"), []

    async def handle(data):  # type: ignore[no-untyped-def]
        got.append(data)

    handle.__annotations__ = {"data": annotation}
    worker.queue(name)(handle)

    async with working(worker) as client:
        await client.queue(name).send(sent)
        await emptied(client, name)

    assert got == [expected]


async def test_data_that_does_not_fit_is_rejected_with_the_reason_and_tried_no_more(url: str, name: str) -> None:  # noqa: F811
    worker = Worker(url)

    @worker.queue(name)
    async def handle(order: Order) -> None:
        raise AssertionError("never called")

    async with working(worker) as client:
        await client.queue(name).send({"sku": "seven"})
        await emptied(client, name)

        assert await reasons(client, name) == ["the data does not fit Order: Expected `int`, got `str` - at `$.sku`"]


async def test_a_large_event_is_rejected_with_advice_by_a_handler_that_asks_for_its_data(url: str, name: str) -> None:  # noqa: F811
    worker, tries = Worker(url), []

    @worker.queue(name)
    async def handle(data: Any) -> None:
        tries.append(data)

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield bytes(1_000_000)

    async with working(worker) as client:
        await client.queue(name).send_stream(chunks())
        await emptied(client, name)

        (reason,) = await reasons(client, name)
        assert reason.endswith("read it with event.open_stream(): annotate the parameter with ReceivedEvent")
    assert tries == []


def test_a_signature_that_cannot_be_filled_is_refused_when_it_is_declared() -> None:
    worker = Worker("memory:")

    with pytest.raises(BadSetting, match="two parameters for the data; 'second'"):
        worker.queue("q")(lambda first, second: None)
    with pytest.raises(BadSetting, match="transactional=True"):

        @worker.queue("q")
        async def handle(tx: holdfast.Transaction) -> None: ...

    with pytest.raises(BadSetting, match="all Struct types must be tagged"):

        @worker.queue("q")
        async def choose(data: Order | Other) -> None: ...

    with pytest.raises(BadSetting, match="declared with a name"):
        worker.queue(lambda event: None)  # type: ignore[arg-type]
    with pytest.raises(BadSetting, match="concurrency=0"):
        worker.queue("q", concurrency=0)(lambda event: None)
    with pytest.raises(BadSetting, match="two, as in"):
        worker.queue("q", backoff=(60, 1))
    assert worker.handlers == []


# --- failing ---------------------------------------------------------------------------------------------------------


async def test_an_exception_releases_with_back_off_and_after_the_last_try_the_event_is_dead(url: str, name: str) -> None:  # noqa: F811
    worker, tries = Worker(url), []

    @worker.queue(name, retries=2, backoff=SOON)
    async def handle(event: holdfast.ReceivedEvent) -> None:
        tries.append(event.deliveries)
        raise ValueError("no such customer")

    async with working(worker) as client:
        await client.queue(name).send({})
        await emptied(client, name)

        assert tries == [0, 1, 2]
        (reason,) = await reasons(client, name)
        said, where, line = reason.splitlines()
        assert said == "ValueError: no such customer"
        assert f'File "{__file__}"' in where  # and no file of Holdfast
        assert line.strip() == 'raise ValueError("no such customer")'
        assert [event.dead[0].code for event in await client.dead.list(queue=name, code="failed")] == ["failed"]


async def test_a_handler_may_say_when_to_try_again_or_that_it_never_will(url: str, name: str) -> None:  # noqa: F811
    worker, tries = Worker(url), []

    @worker.queue(name, backoff=(60, 60))
    async def handle(data: int, event: holdfast.ReceivedEvent) -> None:
        tries.append(data)
        if data == 1:
            raise Reject("never")
        if not event.deliveries:
            raise Retry(after=0)

    async with working(worker) as client:
        await client.queue(name).send_many([1, 2])
        await emptied(client, name)

        assert sorted(tries) == [1, 2, 2]
        assert await reasons(client, name) == ["never"]


async def test_a_handler_that_takes_too_long_is_cancelled_and_its_event_tried_again(url: str, name: str) -> None:  # noqa: F811
    worker, cancelled = Worker(url), []

    @worker.queue(name, timeout=0.05, backoff=SOON)
    async def handle(event: holdfast.ReceivedEvent) -> None:
        try:
            if not event.deliveries:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(event.deliveries)
            raise

    async with working(worker) as client:
        await client.queue(name).send({})
        await emptied(client, name)

    assert cancelled == [0]


async def test_the_event_of_a_plain_function_that_takes_too_long_is_kept_while_it_runs(
    url: str,  # noqa: F811
    name: str,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker, go_on, tries = Worker(url), threading.Event(), []

    @worker.queue(name, concurrency=4, timeout=0.01, backoff=SOON)
    def handle(job: str) -> None:
        tries.append(job)
        assert job == "fence" or go_on.wait(60)

    async with working(worker) as client:
        await client.queue(name).send("slow")
        await until(lambda: "is kept until it returns" in caplog.text, "it took too long")
        await client.queue(name).send("fence")
        await until(lambda: "fence" in tries, "the next event was handled beside it")
        go_on.set()
        await emptied(client, name)

    assert tries == ["slow", "fence"]


# --- what is wrong from the start ------------------------------------------------------------------------------------


async def test_what_cannot_work_is_said_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_URL", raising=False)
    idle, nowhere, wrong = Worker("memory:"), Worker(), Worker("memory:")
    nowhere.queue("q")(lambda event: None)
    wrong.queue("q", selector="a >")(lambda event: None)

    with pytest.raises(BadSetting, match="no handlers"):
        await idle.start()
    with pytest.raises(BadSetting, match="HOLDFAST_URL"):
        await nowhere.start()
    with pytest.raises(BadSelector):
        await wrong.start()
    with pytest.raises(Closed):
        _ = wrong.client


# --- odd handlers ----------------------------------------------------------------------------------------------------


class Odd(BaseException):
    pass


async def cancels_itself() -> None:
    task = asyncio.create_task(asyncio.Event().wait())
    task.cancel()
    await task


async def is_odd() -> None:
    raise Odd("not an Exception")


async def says_no_time() -> None:
    raise Retry(after="soon")  # type: ignore[arg-type]


def takes_from_nothing() -> None:
    next(iter(()))


async def exits() -> None:
    sys.exit(3)


def exits_in_a_thread() -> None:
    sys.exit("no disk")


def is_interrupted_by_code() -> None:
    raise KeyboardInterrupt


async def fails_in_a_group() -> None:
    raise BaseExceptionGroup("two at once", [SystemExit(1), ValueError("half")])


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (cancels_itself, "CancelledError"),
        (is_odd, "Odd"),
        (says_no_time, "'soon' s is not possible"),
        (takes_from_nothing, "StopIteration"),
        (exits, "SystemExit(3)"),
        (exits_in_a_thread, "SystemExit('no disk')"),
        (is_interrupted_by_code, "KeyboardInterrupt()"),
        (fails_in_a_group, "two at once"),
    ],
)
async def test_however_a_handler_fails_its_event_is_tried_again_and_then_dead(function: Any, reason: str, name: str) -> None:  # noqa: F811
    worker = Worker("memory:")
    worker.queue(name, retries=2, backoff=SOON)(function)

    async with working(worker) as client:
        await client.queue(name).send_many(range(5))
        await emptied(client, name)

        dead = await client.dead.list()
        assert [event.dead[0].deliveries for event in dead] == [3] * 5
        assert all(reason in event.dead[0].reason for event in dead)


async def test_a_plain_function_around_an_async_one_has_done_its_work_when_the_event_is_confirmed(name: str) -> None:  # noqa: F811
    worker, done = Worker("memory:"), []

    async def work(number: int) -> None:
        await turn_loop()
        done.append(number)

    @worker.queue(name)
    def handle(number: int) -> Any:
        return work(number)

    async with working(worker) as client:
        await client.queue(name).send(7)
        await emptied(client, name)

    assert done == [7]


def test_a_handler_that_yields_is_refused() -> None:
    worker = Worker("memory:")

    async def handle(number: int) -> AsyncIterator[int]:
        yield number

    with pytest.raises(BadSetting, match="yields"):
        worker.queue("q")(handle)
