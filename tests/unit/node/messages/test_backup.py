"""Message managers that follow one channel: backups are equal and silent, one takes over, and the deposed one is silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.bus.bus import InProcessBus, message_manager_subject
from holdfast.bus.message import CreditGranted, Delivered, Holding, Reply
from holdfast.channel.channel import Purpose, Receipt
from holdfast.channel.memory_channel import MemoryChannel
from holdfast.destination import command as commands
from holdfast.destination.command import Attach, BatchCommand, Claim, Command, Create
from holdfast.errors import Unavailable
from holdfast.event import position
from holdfast.event.position import Ranges
from holdfast.node.clock import SystemClock
from holdfast.node.logs.operator_log import OperatorLog
from holdfast.node.messages.message_manager import MessageManager
from holdfast.node.messages.start import Backup
from holdfast.node.settings import NodeSettings
from tests.machines import batch_of
from tests.waiting import turn_loop, until

MANAGER = "orders"
CLIENTS = "client_manager.test"


class Refusing(MemoryChannel):
    """Takes no command while it is told to."""

    is_refusing = False

    def append(self, command: Any, purpose: Purpose = Purpose.EVENTS) -> asyncio.Future[Receipt]:
        if self.is_refusing:
            failed: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
            failed.set_exception(Unavailable("the channel takes nothing now; try again later"))
            return failed
        return super().append(command, purpose)


class Nodes:
    """Nodes of one process that share a channel. Each has a bus of its own, so that a test sees who says what."""

    def __init__(self) -> None:
        self.channel = Refusing()
        self.heard: dict[str, list[Any]] = {}
        self.buses: dict[str, InProcessBus] = {}
        self.managers: dict[str, MessageManager] = {}

    async def open(self, name: str) -> MessageManager:
        bus = self.buses[name] = InProcessBus()
        bus.listen(CLIENTS, self.heard.setdefault(name, []).append)
        shared = (MANAGER, self.channel, bus, SystemClock(), NodeSettings(), OperatorLog(self.channel))
        manager = self.managers[name] = await MessageManager.open(*shared, backup=Backup(name, name.upper()))
        return manager

    async def append(self, command: Command, payload: bytes = b"") -> int:
        receipt = await self.channel.append(commands.encode(command, payload), Purpose.EVENTS)
        return receipt.entry

    async def send(self, mark: int) -> int:
        return await self.append(BatchCommand("q", "", 0), batch_of(1, mark))

    async def attach(self, name: str, held: Ranges | None = None, session: str = "ann") -> None:
        """A receiver attaches, as its client manager says to the node of this name."""
        hold = Holding(CLIENTS, session, 1, held or Ranges())
        self.buses[name].publish(message_manager_subject(MANAGER), hold)
        await self.append(Attach(session, 1, "q", ""))
        self.buses[name].publish(message_manager_subject(MANAGER), CreditGranted(session, 1, 100, 1 << 20))

    async def equal(self) -> None:
        await until(lambda: len({each.applied for each in self.managers.values()}) == 1, "all have applied the same")
        assert len({each.directory.digest() for each in self.managers.values()}) == 1

    def primaries(self) -> list[MessageManager]:
        return [each for each in self.managers.values() if each.is_primary]

    def delivered(self, name: str) -> list[int]:
        return [each.first for said in self.heard[name] if isinstance(said, Delivered) for each in said.slices]


@asynccontextmanager
async def open_nodes() -> AsyncIterator[Nodes]:
    made = Nodes()
    try:
        yield made
    finally:
        for each in made.managers.values():
            await each.stop()
        await made.channel.close()


async def test_a_backup_is_equal_and_says_nothing() -> None:
    async with open_nodes() as nodes:
        first = await nodes.open("a")
        second = await nodes.open("b")
        assert await first.take_over()
        await nodes.append(Create("q", "queue", origin=CLIENTS, token=7))
        await nodes.attach("a")
        entries = [await nodes.send(mark) for mark in range(1, 4)]

        await until(lambda: len(nodes.delivered("a")) == 3, "the primary delivers")
        await nodes.equal()

        assert [each.token for each in nodes.heard["a"] if isinstance(each, Reply)] == [7]
        assert nodes.heard["b"] == [] and not second.is_primary
        assert [position.entry_of(each) for each in nodes.delivered("a")] == entries


async def test_a_backup_takes_over_and_the_deposed_primary_says_nothing_more() -> None:
    async with open_nodes() as nodes:
        first = await nodes.open("a")
        second = await nodes.open("b")
        assert await first.take_over()
        await nodes.append(Create("q", "queue"))
        await nodes.attach("a")
        await nodes.send(1)
        await until(lambda: len(nodes.delivered("a")) == 1, "the first event is delivered")
        held = Ranges.gather((each, each) for each in nodes.delivered("a"))

        assert await second.take_over()
        await until(lambda: not first.is_primary, "the former primary has read the claim")
        assert nodes.primaries() == [second]
        said = len(nodes.heard["a"])
        await nodes.send(2)
        await nodes.append(Create("other", "queue", origin=CLIENTS, token=8))
        await until(lambda: any(isinstance(each, Reply) for each in nodes.heard["b"]), "the new primary answers")
        assert nodes.delivered("b") == []  # nobody knows yet what the receiver holds

        await nodes.attach("b", held)
        await until(lambda: len(nodes.delivered("b")) == 1, "the new primary delivers what the receiver does not hold")
        assert not set(nodes.delivered("b")) & set(nodes.delivered("a"))
        assert len(nodes.heard["a"]) == said


async def test_of_two_that_claim_at_once_one_is_primary_and_the_other_can_take_over_later() -> None:
    async with open_nodes() as nodes:
        first, second = await nodes.open("a"), await nodes.open("b")

        won = await asyncio.gather(first.take_over(), second.take_over())

        assert sorted(won) == [False, True]
        winner, loser = (first, second) if won[0] else (second, first)
        assert nodes.primaries() == [winner]
        assert await loser.take_over()
        await winner.ended()
        assert nodes.primaries() == [loser] and loser.directory.epoch == 2


async def test_a_claim_that_comes_late_deposes_nobody() -> None:
    """A candidate that was slow: its claim is of an epoch that another has."""
    async with open_nodes() as nodes:
        first = await nodes.open("a")
        await nodes.open("b")
        assert await first.take_over()
        late = await nodes.append(Claim(epoch=1, node="b"))

        await first.until_applied(late)

        assert nodes.primaries() == [first]


async def test_a_backup_that_opens_late_begins_with_the_snapshot() -> None:
    async with open_nodes() as nodes:
        first = await nodes.open("a")
        assert await first.take_over()
        await nodes.append(Create("q", "queue"))
        at = await nodes.send(1)
        await first.until_applied(at)
        await nodes.channel.save_snapshot(first.applied, first.directory.snapshot())
        await nodes.send(2)

        second = await nodes.open("b")

        await nodes.equal()
        assert second.replayed < 3


async def test_a_claim_that_cannot_be_appended_is_told_and_tried_again_by_the_caller() -> None:
    async with open_nodes() as nodes:
        backup = await nodes.open("a")
        nodes.channel.is_refusing = True
        with pytest.raises(Unavailable):
            await backup.take_over()
        nodes.channel.is_refusing = False
        assert not backup.is_primary
        assert await backup.take_over()


async def test_a_backup_remembers_nothing_of_what_passes_by() -> None:
    """What arrived during a start is delivered first; a backup that ran for long has no such list."""
    async with open_nodes() as nodes:
        first, second = await nodes.open("a"), await nodes.open("b")
        assert await first.take_over()
        await nodes.append(Create("q", "queue"))
        for mark in range(1, 50):
            await nodes.send(mark)
        await nodes.equal()
        await turn_loop(3)

        assert second._start.early() == {}
