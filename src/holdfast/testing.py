"""Testing one's own handlers: in memory, without a server, in milliseconds.

    from holdfast.testing import running

    async def test_an_order_is_invoiced():
        async with running(worker) as place:
            await place.send("orders", {"sku": 7})
            await place.idle()
            assert [event.data for event in await place.waiting("invoices")] == [{"for": 7}]

The worker is the one that production runs, with its handlers, retries and transactions; only its URL is `memory:`, and its pauses
before another try are short. A handler that fails for good leaves a dead event: `await place.dead()` has all, with reasons.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Unpack

from holdfast.client.client import Client
from holdfast.client.description import SubscriptionDescription
from holdfast.client.destination import Queue, Topic
from holdfast.client.reading.browser import BrowsedEvent
from holdfast.client.receipt import Receipt
from holdfast.client.sending.outgoing import EventFields
from holdfast.errors import NoSuchDestination, TimedOut
from holdfast.event.pattern import Pattern
from holdfast.worker.handler import Handler
from holdfast.worker.worker import Worker

# How long a test waits for a worker, unless it says otherwise.
TIMEOUT_S = 10.0
LOOK_S = 0.005
_numbers = itertools.count(1)


class Place:
    """Events in memory, with a worker at work on them."""

    def __init__(self, client: Client, worker: Worker) -> None:
        self.client = client
        self.worker = worker

    async def send(self, destination: str, data: Any = None, **fields: Unpack[EventFields]) -> Receipt:
        """Send an event to a destination of the worker, or to a queue."""
        return await self._destination(destination).send(data, **fields)

    async def request(self, destination: str, data: Any = None, **fields: Unpack[EventFields]) -> Any:
        """Send a request and return the data of the reply."""
        return (await self._destination(destination).request(data, timeout=TIMEOUT_S, **fields)).data

    def _destination(self, name: str) -> Queue | Topic:
        topics = [Pattern.glob(each.destination) for each in self.worker.handlers if each.kind == "topic"]
        return self.client.topic(name) if any(each.matches(name) for each in topics) else self.client.queue(name)

    async def idle(self, timeout: float = TIMEOUT_S) -> None:
        """Wait until the worker has nothing left: every event was confirmed, or is dead. TimedOut says what still waits."""
        deadline = asyncio.get_running_loop().time() + timeout
        while left := await self._left():
            if asyncio.get_running_loop().time() > deadline:
                raise TimedOut(
                    f"after {timeout:g} s events still wait for {', '.join(left)}; does a handler hang, or fail for ever?"
                )
            await asyncio.sleep(LOOK_S)

    async def _left(self) -> list[str]:
        subscriptions = await self.client.subscriptions()
        return [each.title for each in self.worker.handlers if await self._count(each, subscriptions)]

    async def _count(self, handler: Handler, subscriptions: list[SubscriptionDescription]) -> int:
        if handler.kind == "topic":
            name = handler.options["subscription"]
            return sum(each["waiting"] for each in subscriptions if (each["name"] == name if name else not each["is_durable"]))
        try:
            return (await self.client.describe(handler.destination))["waiting"]
        except NoSuchDestination:
            return 0  # nobody has sent there yet

    async def waiting(self, queue: str) -> list[BrowsedEvent]:
        """Return what waits in a queue, without taking it."""
        try:
            async with self.client.queue(queue).browse() as events:
                return [event async for event in events]
        except NoSuchDestination:
            return []  # nobody has sent there yet

    async def dead(self) -> list[BrowsedEvent]:
        """Return the events that were given up; `event.dead[0].reason` says why."""
        return await self.client.dead.list()


@asynccontextmanager
async def running(worker: Worker, *, backoff: tuple[float, float] = (0.0, 0.0)) -> AsyncIterator[Place]:
    """Run a worker on events in memory that nobody else sees; `backoff` replaces the pauses of its handlers."""
    tested = Worker(f"memory:testing-{next(_numbers)}", name=worker.name, grace=worker.grace)
    tested.handlers = [_with_backoff(handler, backoff) for handler in worker.handlers]
    tested.on_start_hooks, tested.on_stop_hooks = worker.on_start_hooks, worker.on_stop_hooks
    async with tested:
        yield Place(tested.client, tested)


def _with_backoff(handler: Handler, backoff: tuple[float, float]) -> Handler:
    return dataclasses.replace(handler, retry=handler.retry._replace(first_s=backoff[0], longest_s=backoff[1]))
