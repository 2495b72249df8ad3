"""The kinds of channel, opened alike: what the contract suite needs to know to be one suite."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from holdfast.channel.channel import Channel, Entry, Purpose, Receipt
from holdfast.channel.jetstream.jetstream_channel import JetStreamChannel
from holdfast.channel.jetstream.settings import JetStreamSettings
from holdfast.channel.journal.journal_channel import JournalChannel
from holdfast.channel.journal.settings import JournalSettings
from holdfast.channel.memory_channel import MemoryChannel, MemorySettings
from holdfast.errors import Blocked
from tests.nats_server import NatsServer

KIB = 1 << 10
MIB = 1 << 20

# More than any kind needs on a busy machine; a test that waits so long has failed.
PATIENCE_S = 30.0


class Size(NamedTuple):
    size_bytes: int
    reserve_bytes: int
    upkeep_bytes: int
    segment_bytes: int  # of a journal; the stretches of a stream


ROOMY = Size(size_bytes=64 * MIB, reserve_bytes=2 * MIB, upkeep_bytes=2 * MIB, segment_bytes=4 * MIB)
TIGHT = Size(size_bytes=1 * MIB, reserve_bytes=64 * KIB, upkeep_bytes=64 * KIB, segment_bytes=16 * KIB)


class Kind(Protocol):
    is_synced: bool

    @property
    def copies(self) -> int:
        """How many copies a receipt promises."""

    async def open(self, size: Size = ROOMY) -> Channel:
        """The same channel each time within one test, where it lasts."""


@dataclass
class InMemory:
    is_synced = False
    copies = 1

    async def open(self, size: Size = ROOMY) -> Channel:
        return MemoryChannel(MemorySettings(size.size_bytes, size.reserve_bytes, size.upkeep_bytes))


@dataclass
class OnJournal:
    folder: Path
    is_synced = True
    copies = 1

    async def open(self, size: Size = ROOMY) -> Channel:
        settings = JournalSettings(
            size_bytes=size.size_bytes,
            initial_bytes=size.size_bytes // 4,
            segment_bytes=size.segment_bytes,
            reserve_bytes=size.reserve_bytes,
            upkeep_bytes=size.upkeep_bytes,
        )
        return await JournalChannel.open(self.folder, settings)


@dataclass
class OnJetStream:
    """On one server, or on three that hold a copy each."""

    servers: Sequence[NatsServer]
    name: str = field(default_factory=lambda: f"contract-{secrets.token_hex(4)}")
    is_synced = True

    @property
    def copies(self) -> int:
        return len(self.servers) // 2 + 1

    async def open(self, size: Size = ROOMY) -> Channel:
        settings = JetStreamSettings(
            servers=tuple(server.url for server in self.servers),
            monitors=tuple(server.monitor for server in self.servers),
            replicas=len(self.servers),
            size_bytes=size.size_bytes,
            reserve_bytes=size.reserve_bytes,
            upkeep_bytes=size.upkeep_bytes,
            stretch_bytes=size.segment_bytes,
        )
        return await JetStreamChannel.open(self.name, settings)


@asynccontextmanager
async def opened(kind: Kind, size: Size = ROOMY) -> AsyncIterator[Channel]:
    channel = await kind.open(size)
    try:
        yield channel
    finally:
        await channel.close()


def commands(count: int, start: int = 1) -> list[bytes]:
    return [b"command %d" % number for number in range(start, start + count)]


async def append_all(channel: Channel, wanted: list[bytes]) -> list[Receipt]:
    return await asyncio.wait_for(asyncio.gather(*[channel.append(command) for command in wanted]), PATIENCE_S)


async def read_up_to(channel: Channel, start: int, end: int) -> list[Entry]:
    """Entries from `start` to `end`, the last included."""
    found: list[Entry] = []
    async with asyncio.timeout(PATIENCE_S), reading(channel, start) as runs:
        while not found or found[-1].number < end:
            found.extend(await anext(runs))
    return [Entry(number, bytes(command)) for number, command in found if number <= end]


def reading(channel: Channel, start: int) -> Any:
    """A reader that is ended in good order when the block is left."""
    return aclosing(cast(Any, channel.read(start)))


async def fill(channel: Channel, purpose: Purpose, command: bytes) -> int:
    """Appends until it is Blocked; how many were taken."""
    taken = 0
    while True:
        try:
            await asyncio.wait_for(channel.append(command, purpose), PATIENCE_S)
        except Blocked:
            return taken
        taken += 1
