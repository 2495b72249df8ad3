"""Members of one message manager on several nodes of one process, with one channel and one bus."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from holdfast.bus.bus import InProcessBus, OnMessage
from holdfast.bus.message import Heartbeat
from holdfast.channel.channel import Channel, Purpose
from holdfast.channel.memory_channel import MemoryChannel
from holdfast.destination import command as commands
from holdfast.destination.command import BatchCommand, Create
from holdfast.errors import Unavailable
from holdfast.node.clock import SystemClock
from holdfast.node.clustered.heartbeat import Heart
from holdfast.node.clustered.member import Member
from holdfast.node.clustered.orders.check import Checks
from holdfast.node.clustered.orders.heard import Heard
from holdfast.node.clustered.orders.node_calls import NodeCalls, Serve
from holdfast.node.clustered.orders.takeover import Takeovers
from holdfast.node.clustered.roster import Roster
from holdfast.node.logs.operator_log import OperatorLog
from holdfast.node.messages.message_manager import MessageManager
from holdfast.node.messages.start import Backup
from holdfast.node.settings import NodeSettings
from tests.machines import batch_of
from tests.waiting import until

MANAGER = "orders"


class CuttableBus:
    """The bus as one node has it: while it is cut, the node hears and says nothing."""

    def __init__(self, bus: InProcessBus) -> None:
        self.is_cut = False
        self._bus = bus

    @property
    def is_quiet(self) -> bool:
        return self._bus.is_quiet

    def publish(self, subject: str, message: Any) -> None:
        if not self.is_cut:
            self._bus.publish(subject, message)

    def hand_over(self, subject: str, message: Any) -> None:
        if not self.is_cut:
            self._bus.hand_over(subject, message)

    def listen(self, subject: str, on_message: OnMessage) -> Callable[[], None]:
        return self._bus.listen(subject, lambda message: None if self.is_cut else on_message(message))


class Node:
    def __init__(self, name: str, start: str, rank: int, cluster: Cluster) -> None:
        whose = Backup(name, start)
        self.bus = CuttableBus(cluster.bus)
        self._cluster = cluster
        self.led: list[int] = []  # epochs
        self.member = Member(MANAGER, whose, rank, self._open, SystemClock(), lambda _, epoch: self.led.append(epoch))
        self.roster, heard = Roster("test", name, {MANAGER: cluster.names}), Heard()

        def note(heartbeat: Heartbeat, now_ms: int) -> None:
            self.roster.heard(heartbeat, now_ms)
            heard.look()

        self.heart = Heart(whose, "", self.bus, SystemClock(), [self.member], note=note)
        self.takeovers = Takeovers({MANAGER: self.member}, self.roster, self.heart, heard, SystemClock())
        self.checks = Checks({MANAGER: self.member}, self.roster, {MANAGER: cluster.channel})
        served: dict[str, Serve] = {"digest": self.checks.serve_digest, "open_anew": self.checks.serve_open_anew}
        self.calls = NodeCalls(whose, self.bus, served)

    async def _open(self, whose: Backup) -> MessageManager:
        if self._cluster.is_away:
            raise Unavailable("the channel is away; try again later")
        channel: Channel = self._cluster.channel
        shared = (MANAGER, channel, self.bus, SystemClock(), NodeSettings(), OperatorLog(channel))
        return await MessageManager.open(*shared, backup=whose)

    async def stop(self) -> None:
        self.heart.stop()
        await self.calls.stop()
        await self.member.stop()


class Cluster:
    """Nodes of one process, with one channel and one bus."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.bus = InProcessBus()
        self.channel = MemoryChannel()
        self.is_away = False
        self.nodes: dict[str, Node] = {}
        self._starts = 0

    def start(self, *names: str) -> None:
        for name in names:
            self._starts += 1
            self.nodes[name] = Node(name, f"{name}{self._starts}", "abc".index(name), self)

    async def stop(self, *names: str) -> None:
        for name in names:
            await self.nodes.pop(name).stop()

    def primaries(self) -> list[str]:
        return [name for name, node in self.nodes.items() if node.member.is_primary]

    async def until_primary(self, name: str) -> None:
        await until(lambda: self.primaries() == [name], f"{name} is the only primary, not {self.primaries()}")

    async def send(self, mark: int) -> None:
        await self.channel.append(commands.encode(BatchCommand("q", "", 0), batch_of(1, mark)), Purpose.EVENTS)

    async def until_equal(self) -> None:
        def digests() -> set[str]:
            managers = [node.member.manager for node in self.nodes.values()]
            return {each.directory.digest() if each and each.applied == self.channel.durable else "" for each in managers}

        await until(lambda: len(digests() - {""}) == 1 and "" not in digests(), "all members are equal")


@asynccontextmanager
async def clustered(*names: str) -> AsyncIterator[Cluster]:
    cluster = Cluster(names)
    await cluster.channel.append(commands.encode(Create("q", "queue"), b""), Purpose.EVENTS)
    cluster.start(*names)
    try:
        yield cluster
    finally:
        await cluster.stop(*cluster.nodes)
        await cluster.channel.close()


def now_ms() -> int:
    return SystemClock().steady_ms()
