"""The kinds of bus that the contract suite runs on: a client manager's side and a message manager's side, in a process or two.

in process    both sides are one bus
nats          two connections to a real server, as two processes have them
bad network   the same, and each connection loses, repeats, delays and reorders what it publishes, by seed
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from holdfast.bus.bus import Bus, InProcessBus, client_manager_subject, message_manager_subject
from holdfast.bus.message import LinkMade
from holdfast.bus.message_codec import MessageCodec
from holdfast.bus.nats.connection import Connection, NatsConnection, OnData
from holdfast.bus.nats.manager_bus import ManagerBus
from holdfast.bus.nats.nats_bus import NatsBus
from holdfast.event import identifier
from holdfast.node.administration.arguments import ACTIONS
from tests.nats_server import NatsServer
from tests.waiting import until

MANAGER = "orders.eu"
EPOCH = 3
CODEC = MessageCodec(ACTIONS.values())


def new_name() -> str:
    return identifier.to_text(random.SystemRandom().getrandbits(120))


class Sides(NamedTuple):
    """A bus as a client manager has it, and as a primary has it; with a link between them."""

    client: Bus
    manager: Bus
    client_subject: str
    manager_subject: str


class InOneProcess:
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Sides]:
        bus = InProcessBus()
        yield Sides(bus, bus, client_manager_subject("a1"), message_manager_subject(MANAGER))

    async def settle(self, sides: Sides) -> None:
        """Return when those who listen now will hear what is published from now on."""


class OnNats:
    def __init__(self, server: NatsServer) -> None:
        self._server = server

    async def connect(self) -> Connection:
        return await NatsConnection.open([self._server.url])

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Sides]:
        cluster = new_name()
        one, two = await self.bus(cluster), await self.bus(cluster)
        try:
            yield await linked(one, two)
        finally:
            await one.close()
            await two.close()

    async def bus(self, cluster: str) -> NatsBus:
        return NatsBus(await self.connect(), cluster, new_name(), CODEC)

    async def settle(self, sides: Sides) -> None:
        assert isinstance(sides.client, NatsBus) and isinstance(sides.manager, ManagerBus)
        await sides.client.flush()
        await sides.manager._endpoint.connection.flush()


BusKind = InOneProcess | OnNats


async def linked(client: NatsBus, node: NatsBus, epoch: int = EPOCH) -> Sides:
    """The second bus leads the manager, and the first one has a link with it."""
    manager, made = node.manager(MANAGER), list[object]()
    stop = client.listen(client.subject, made.append)
    if not manager.is_leading:
        manager.lead(epoch)
    client.learn_epoch(MANAGER, epoch)
    client.reach(MANAGER)
    await until(lambda: LinkMade(message_manager_subject(MANAGER), epoch) in made, "the link is made")
    stop()
    return Sides(client, manager, client.subject, message_manager_subject(MANAGER))


class OnBadNetwork(OnNats):
    def __init__(self, server: NatsServer, seed: int) -> None:
        super().__init__(server)
        self._dice = random.Random(seed)

    async def connect(self) -> Connection:
        return BadConnection(await super().connect(), self._dice)


class BadConnection:
    """Loses, repeats, delays and reorders what is published to links, by seed; what goes to all arrives."""

    def __init__(self, connection: Connection, dice: random.Random, *, lost: float = 0.1, again: float = 0.1) -> None:
        self.lost = lost
        self.again = again
        self._connection = connection
        self._dice = dice
        self._loop = asyncio.get_running_loop()

    def publish(self, subject: str, data: bytes) -> None:
        if ".cm." not in subject and ".mm." not in subject:
            self._connection.publish(subject, data)
            return
        if self._dice.random() < self.lost:
            return
        for _ in range(2 if self._dice.random() < self.again else 1):
            delay_s = self._dice.choice((0.0, 0.0, 0.0, 0.002, 0.02))
            self._loop.call_later(delay_s, self._connection.publish, subject, data)

    def subscribe(self, subject: str, on_data: OnData) -> Callable[[], None]:
        return self._connection.subscribe(subject, on_data)

    async def flush(self) -> None:
        await self._connection.flush()

    async def close(self) -> None:
        await self._connection.close()
