"""The primary of a cluster forgets producers whose sessions are long gone: the state does not grow with every session."""

from __future__ import annotations

import asyncio

from holdfast.bus.bus import InProcessBus
from holdfast.channel.channel import Buffer, Purpose, Receipt
from holdfast.channel.memory_channel import MemoryChannel
from holdfast.cluster.ended_producers import KEPT_MS
from holdfast.destination import command as commands
from holdfast.destination.command import Detach, Introduce, OpenProducer
from holdfast.errors import Unavailable
from holdfast.node.clock import SystemClock
from holdfast.node.clustered.producer_forgetting import ProducerForgetting
from holdfast.node.logs.operator_log import OperatorLog
from holdfast.node.messages.message_manager import MessageManager
from holdfast.node.settings import NodeSettings
from tests.waiting import turn_loop, until


class FullChannel(MemoryChannel):
    is_full = False

    def append(self, command: Buffer, purpose: Purpose = Purpose.EVENTS) -> asyncio.Future[Receipt]:
        if not self.is_full:
            return super().append(command, purpose)
        refused: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        refused.set_exception(Unavailable("no room"))
        return refused


async def _session(channel: MemoryChannel, name: str, *, is_ended: bool = True) -> None:
    for made in (Introduce(name, "cm.1", 1), OpenProducer(f"of-{name}", name), *([Detach(name)] if is_ended else [])):
        await channel.append(commands.encode(made), Purpose.EVENTS)


async def test_producers_are_forgotten_after_ten_minutes_and_two_snapshots() -> None:
    channel = FullChannel()
    manager = await MessageManager.open(
        "m1", channel, InProcessBus(), SystemClock(), NodeSettings(), OperatorLog(channel)
    )  # fmt: skip
    try:
        await manager.wait_until_primary()
        forgetting = ProducerForgetting(manager)
        producers = manager.directory.producers
        for number in range(50):
            await _session(channel, f"s{number}")
        await _session(channel, "open", is_ended=False)
        await manager.until_applied(channel.durable)
        assert len(producers.ended()) == 50

        forgetting.look(0)
        await manager.upkeep._snapshot()  # a round of upkeep comes after many megabytes
        forgetting.look(KEPT_MS)
        await turn_loop(5)
        assert len(producers.ended()) == 50, "one snapshot is not enough"

        await _session(channel, "late")
        await manager.upkeep._snapshot()
        channel.is_full = True
        forgetting.look(KEPT_MS)
        await turn_loop(5)
        assert len(producers.ended()) == 51, "no room; it is tried again"
        channel.is_full = False
        forgetting.look(KEPT_MS)
        await until(lambda: [name for name, _ in producers.ended()] == ["of-late"], "they are forgotten, and no other")
        assert producers.find("of-open") is not None
    finally:
        forgetting.stop()
        await manager.stop()
        await channel.close()
