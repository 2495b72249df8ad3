"""The kinds of channel, opened alike: what the contract suite needs to know to be one suite."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from holdfast.channel.channel import Channel
from holdfast.channel.jetstream import JetStreamChannel, JetStreamSettings
#TMP from holdfast.channel.journal import JournalChannel, JournalSettings
from holdfast.channel.memory import MemoryChannel, MemorySettings
from tests.nats_server import NatsServer

KIB = 1 << 10
MIB = 1 << 20


class Size(NamedTuple):
    size_bytes: int
    reserve_bytes: int
    upkeep_bytes: int
    segment_bytes: int  # means something to a journal only


ROOMY = Size(size_bytes=64 * MIB, reserve_bytes=2 * MIB, upkeep_bytes=2 * MIB, segment_bytes=4 * MIB)
TIGHT = Size(size_bytes=1 * MIB, reserve_bytes=64 * KIB, upkeep_bytes=64 * KIB, segment_bytes=16 * KIB)


class Kind(Protocol):
    is_synced: bool

    async def open(self, size: Size = ROOMY) -> Channel:
        """The same channel each time within one test, where it lasts."""


@dataclass
class InMemory:
    is_synced = False

    async def open(self, size: Size = ROOMY) -> Channel:
        return MemoryChannel(MemorySettings(size.size_bytes, size.reserve_bytes, size.upkeep_bytes))


@dataclass
class OnJournal:
    folder: Path
    is_synced = True

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
    server: NatsServer
    name: str = field(default_factory=lambda: f"contract-{secrets.token_hex(4)}")
    is_synced = True

    async def open(self, size: Size = ROOMY) -> Channel:
        settings = JetStreamSettings(
            servers=(self.server.url,),
            monitors=(self.server.monitor,),
            replicas=1,
            size_bytes=size.size_bytes,
            reserve_bytes=size.reserve_bytes,
            upkeep_bytes=size.upkeep_bytes,
        )
        return await JetStreamChannel.open(self.name, settings)
