"""The simulated bus: core NATS between nodes. At most once; everything above the connection is the code of `bus.nats`.

    publish ──▶ each subscription of the subject: a packet of its own, which may be lost, doubled, late

A packet goes from node to node by way of the servers: it is cut where any of the three ways is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from holdfast.simulation.clusters.network import SERVERS, Network
from holdfast.simulation.clusters.process import Process
from holdfast.simulation.clusters.world import World

OnData = Callable[[bytes], None]


class _Subscription:
    def __init__(self, process: Process, on_data: OnData) -> None:
        self.process = process
        self.is_over = False
        self._on_data = on_data

    def hear(self, data: bytes) -> None:
        if not self.is_over:
            self._on_data(data)


class SimulatedBus:
    def __init__(self, world: World, network: Network) -> None:
        self.world = world
        self.network = network
        self._subscriptions: dict[str, list[_Subscription]] = {}

    def publish(self, source: str, subject: str, data: bytes) -> None:
        network = self.network
        if network.is_cut(source, SERVERS):
            return
        for each in self._subscriptions.get(subject, ()):
            target = each.process.name
            if not each.process.is_dead and not network.is_cut(SERVERS, target):
                fate = network.packet(source, target, each.process, partial(each.hear, data))
                self.world.note(source, f"> {target} {subject} {len(data)} {fate}")

    def add(self, subject: str, made: _Subscription) -> None:
        self._subscriptions.setdefault(subject, []).append(made)

    def remove(self, subject: str, made: _Subscription) -> None:
        made.is_over = True
        if made in self._subscriptions.get(subject, []):
            self._subscriptions[subject].remove(made)


class SimulatedConnection:
    """The connection of one node to the servers, as `bus.nats.connection.Connection` says."""

    def __init__(self, bus: SimulatedBus, process: Process) -> None:
        self._bus = bus
        self._process = process

    def publish(self, subject: str, data: bytes) -> None:
        if not self._process.is_dead:
            self._bus.publish(self._process.name, subject, data)

    def subscribe(self, subject: str, on_data: OnData) -> Callable[[], None]:
        made, name = _Subscription(self._process, on_data), self._process.name
        self._bus.network.stream(name, SERVERS, None, partial(self._bus.add, subject, made), "orders")

        def stop() -> None:
            made.is_over = True
            self._bus.network.stream(name, SERVERS, None, partial(self._bus.remove, subject, made), "orders")

        return stop

    async def flush(self) -> None:
        flushed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        name, network = self._process.name, self._bus.network

        def hear() -> None:
            if not flushed.done():
                flushed.set_result(None)

        def answer() -> None:
            network.stream(SERVERS, name, self._process, hear, "orders")

        network.stream(name, SERVERS, None, answer, "orders")
        await flushed

    async def close(self) -> None:
        """Nothing is kept open."""
