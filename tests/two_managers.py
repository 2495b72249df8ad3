"""A node of two message managers in memory, in the test's own loop, on whose channels a test can hold commands back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import holdfast
from holdfast.channel.channel import Channel, Purpose, Receipt
from holdfast.channel.memory_channel import MemoryChannel
from holdfast.destination import command
from holdfast.destination.command import Command
from holdfast.node.clock import Clock, SystemClock
from holdfast.node.identity import Identity
from holdfast.node.node import Node
from holdfast.node.settings import NodeSettings
from tests.client_of import client_of

NAMES = ("m1", "m2")
HASTE = 20


class HastyClock(SystemClock):
    """Time goes twenty times as fast, for those who wait for it."""

    def __init__(self) -> None:
        super().__init__(steady_ns=lambda: HASTE * time.monotonic_ns())

    def call_later(self, delay_ms: int, function: Callable[[], None]) -> asyncio.TimerHandle:
        return super().call_later(delay_ms // HASTE, function)


class HeldAppends:
    """The channel of a message manager, as its client manager appends to it: commands of one kind wait until they are let go."""

    def __init__(self, channel: Any, kind: type[Command], limit: int = 1 << 30) -> None:
        self.held: list[tuple[bytes, Purpose, asyncio.Future[Receipt]]] = []
        self._channel = channel
        self._kind = kind
        self._limit = limit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def append(self, data: bytes, purpose: Purpose) -> asyncio.Future[Receipt]:
        if command.kind_of(data) != self._kind.KIND or len(self.held) >= self._limit:
            return self._channel.append(data, purpose)  # type: ignore[no-any-return]
        waiting: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self.held.append((data, purpose, waiting))
        return waiting

    def let_go(self) -> None:
        """Append what was held, and whatever comes from now on."""
        self._limit = 0
        for data, purpose, waiting in self.held:
            self._channel.append(data, purpose).add_done_callback(lambda done, waiting=waiting: _pass_on(done, waiting))
        self.held = []


def _pass_on(done: asyncio.Future[Receipt], waiting: asyncio.Future[Receipt]) -> None:
    if not waiting.done() and not done.cancelled():
        if (problem := done.exception()) is not None:
            waiting.set_exception(problem)
        else:
            waiting.set_result(done.result())


def hold(node: Node, manager: str, kind: type[Command], limit: int = 1 << 30) -> HeldAppends:
    """Hold what the client manager appends of this kind to the channel of a message manager."""
    target = node.clients.managers[manager]
    held = HeldAppends(target.channel, kind, limit)
    target.channel = held  # type: ignore[assignment]
    return held


async def made(clock: Clock | None = None, settings: NodeSettings | None = None) -> Node:
    channels: dict[str, Channel] = {name: MemoryChannel() for name in NAMES}
    wanted = settings or NodeSettings(managers=NAMES)
    node = await Node._over(channels, Identity.in_memory(0), wanted, clock or HastyClock())
    for each in node.managers.values():
        await asyncio.wait_for(each.wait_until_primary(), 60)
    return node


@asynccontextmanager
async def two_managers(
    clock: Clock | None = None, settings: NodeSettings | None = None
) -> AsyncIterator[tuple[Node, holdfast.Client]]:  # fmt: skip
    """A node, and a client of it with the queues `at-m1` and `at-m2`, each at its message manager."""
    node = await made(clock, settings)
    async with client_of(node) as client:
        for name in NAMES:
            await placed(client, f"at-{name}", name)
        yield node, client


async def placed(client: holdfast.Client, queue: str, manager: str) -> None:
    """Create a queue at a message manager: a new name goes where the fewest are."""
    while (rows := {row["name"]: row["destinations"] for row in (await client.status())["managers"]})[manager] > min(
        rows.values()
    ):
        await client.create_queue(f"filling-{sum(rows.values())}")
    while True:
        await client.create_queue(queue)
        if (await client._opened().at(queue)).channel == manager:
            return
        raise AssertionError(f"{queue} was not placed at {manager}")


def is_free(node: Node) -> bool:
    """Nothing is in doubt, and nothing is locked, at any message manager."""
    return all(
        not each.directory.transactions.open
        and not each.directory.transactions.waiting
        and all(backlog.locks is None for backlog in each.directory.backlogs().values())
        for each in node.managers.values()
    )


def waiting(node: Node, queue: str) -> int:
    """How many events wait in a queue, wherever it is."""
    return sum(
        each.directory.backlog((queue, "")).waiting
        for each in node.managers.values()
        if queue in each.directory.catalog.destinations
    )
