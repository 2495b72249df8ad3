"""Testing handlers in memory: what `holdfast.testing` gives (docs/guide/testing.md)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast.errors import TimedOut
from holdfast.testing import running
from holdfast.worker.worker import Worker

worker = Worker("holdfast://nowhere.invalid")
began: list[str] = []


@worker.queue("orders", transactional=True, retries=2)
async def invoice(order: dict[str, Any], tx: holdfast.Transaction) -> str:
    if order["sku"] < 0:
        raise ValueError("no such sku")
    await tx.queue("invoices").send({"for": order["sku"]})
    return "invoiced"


@worker.topic("prices.*", subscription="audit")
def note(price: int) -> None:
    began.append(f"price {price}")


@worker.on_start
def begin() -> None:
    began.clear()


async def test_a_worker_is_tested_without_a_server() -> None:
    async with running(worker) as place:
        await place.send("orders", {"sku": 7})
        await place.send("prices.eu", 12)
        assert await place.request("orders", {"sku": 8}) == "invoiced"
        await place.idle()

        assert [event.data for event in await place.waiting("invoices")] == [{"for": 7}, {"for": 8}]
        assert began == ["price 12"]


async def test_what_fails_for_good_is_dead_with_its_reason_and_nothing_was_sent() -> None:
    async with running(worker) as place:
        await place.send("orders", {"sku": -1})
        await place.idle()

        (dead,) = await place.dead()
        assert dead.dead[0].reason.startswith("ValueError: no such sku")
        assert dead.dead[0].deliveries == 3
        assert await place.waiting("invoices") == []


async def test_each_run_has_a_place_of_its_own() -> None:
    async with running(worker) as one, running(worker) as other:
        await one.send("orders", {"sku": 1})
        await one.idle()

        assert len(await one.waiting("invoices")) == 1
        assert await other.waiting("invoices") == []


async def test_a_handler_that_hangs_is_named() -> None:
    hanging = Worker(grace=0)

    @hanging.queue("q")
    async def hang(data: Any) -> None:
        await asyncio.Event().wait()

    async with running(hanging) as place:
        await place.send("q", 1)
        with pytest.raises(TimedOut, match="hang of queue 'q'; does a handler hang"):
            await place.idle(timeout=0.1)
