"""Members of one message manager on several nodes: one is primary, a silent one is followed by the next, all are equal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.bus.bus import InProcessBus, OnMessage
from holdfast.channel.channel import Channel, Purpose
from holdfast.channel.memory_channel import MemoryChannel
from holdfast.destination import command as commands
from holdfast.destination.command import BatchCommand, Create
from holdfast.errors import Unavailable
from holdfast.node.clock import SystemClock
from holdfast.node.clustered import member as member_module
from holdfast.node.clustered.heartbeat import Heart
from holdfast.node.clustered.member import Member
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
        self.heart = Heart(whose, "", self.bus, SystemClock(), [self.member])

    async def _open(self, whose: Backup) -> MessageManager:
        if self._cluster.is_away:
            raise Unavailable("the channel is away; try again later")
        channel: Channel = self._cluster.channel
        shared = (MANAGER, channel, self.bus, SystemClock(), NodeSettings(), OperatorLog(channel))
        return await MessageManager.open(*shared, backup=whose)

    async def stop(self) -> None:
        self.heart.stop()
        await self.member.stop()


class Cluster:
    """Nodes of one process, with one channel and one bus."""

    def __init__(self) -> None:
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
    cluster = Cluster()
    await cluster.channel.append(commands.encode(Create("q", "queue"), b""), Purpose.EVENTS)
    cluster.start(*names)
    try:
        yield cluster
    finally:
        await cluster.stop(*cluster.nodes)
        await cluster.channel.close()


async def test_the_first_in_rank_is_primary_and_the_others_follow_it() -> None:
    async with clustered("a", "b", "c") as cluster:
        await cluster.until_primary("a")
        await cluster.send(1)
        await cluster.until_equal()

        assert [cluster.nodes[name].member.takeovers for name in "abc"] == [1, 0, 0]
        state = cluster.nodes["b"].member.state()
        assert state is not None and (state.manager, state.epoch, state.is_primary) == (MANAGER, 1, False)


async def test_when_the_primary_dies_the_next_in_rank_takes_over() -> None:
    async with clustered("a", "b", "c") as cluster:
        await cluster.until_primary("a")
        await cluster.send(1)
        await cluster.stop("a")
        await cluster.until_primary("b")
        await cluster.stop("b")
        await cluster.until_primary("c")
        await cluster.send(2)
        await cluster.until_equal()


async def test_a_primary_that_was_cut_off_steps_down_and_becomes_a_backup() -> None:
    async with clustered("a", "b") as cluster:
        await cluster.until_primary("a")
        former = cluster.nodes["a"].member.manager
        cluster.nodes["a"].bus.is_cut = True
        await cluster.until_primary("b")
        await cluster.send(1)
        await until(lambda: cluster.nodes["a"].member.manager not in (None, former), "it is opened anew")

        cluster.nodes["a"].bus.is_cut = False
        await cluster.until_equal()
        await until(lambda: cluster.nodes["b"].member.candidate.wrongly_suspected == 1, "b learns that a was alive")
        assert cluster.primaries() == ["b"]
        assert cluster.nodes["b"].member.candidate.silence_ms == 1_000


async def test_a_backup_that_is_cut_off_suspects_nobody() -> None:
    async with clustered("a", "b", "c") as cluster:
        await cluster.until_primary("a")
        cluster.nodes["b"].bus.is_cut = True
        cluster.nodes["c"].heart.stop()  # so silent that it would be suspected, were it the primary
        await until(lambda: cluster.nodes["a"].heart.liveness.is_silent("b2", _now_ms()), "a finds b silent")
        assert cluster.primaries() == ["a"]
        assert cluster.nodes["b"].heart.liveness.alive(_now_ms()) == []


@pytest.mark.parametrize("order", ["ab", "ba"])
async def test_all_are_stopped_and_started_in_any_order(order: str) -> None:
    async with clustered("a", "b") as cluster:
        await cluster.until_primary("a")
        await cluster.send(1)
        await cluster.stop("a", "b")

        cluster.start(*order)
        await until(lambda: len(cluster.primaries()) == 1, "there is a primary again")
        await cluster.send(2)
        await cluster.until_equal()
        assert len(cluster.primaries()) == 1


async def test_a_copy_whose_channel_is_away_is_opened_when_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_module, "OPEN_AGAIN_S", 0.01)
    async with clustered() as cluster:
        cluster.is_away = True
        cluster.start("a")
        await until(lambda: cluster.nodes["a"].heart.liveness.alive(_now_ms()) == ["a1"], "its heart beats")
        assert cluster.nodes["a"].member.state() is None

        cluster.is_away = False
        await cluster.until_primary("a")


def _now_ms() -> int:
    return SystemClock().steady_ms()


async def test_a_deposed_primary_that_reads_its_own_claim_again_does_not_lead_by_it() -> None:
    async with clustered("a", "b") as cluster:
        await cluster.until_primary("a")
        deposed, other = cluster.nodes["a"].member.manager, cluster.nodes["b"].member.manager
        assert other is not None
        await other.take_over()
        await until(lambda: cluster.nodes["a"].member.manager not in (None, deposed), "it is opened anew")
        await cluster.until_equal()
        assert (cluster.nodes["a"].led, cluster.primaries()) == ([1], ["b"])

        await cluster.stop("b")
        await cluster.until_primary("a")
        assert cluster.nodes["a"].led == [1, 3]
