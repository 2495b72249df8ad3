"""A node of one process: a channel, its message manager and a client manager, joined by an in-process bus.

    opened ─▶ accepting (the tail is found; links are taken; events are accepted)
           ─▶ delivering (the channel is replayed, the claim applied)
           ─▶ closed

The same object is behind the server (links come over TCP) and behind embedded mode (links are in process).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from holdfast.bus.in_process import InProcessBus
from holdfast.channel.channel import Channel
from holdfast.channel.journal import JournalChannel
from holdfast.channel.memory import MemoryChannel
from holdfast.destination.name import LOG
from holdfast.node.admin_queue import AdminQueue
from holdfast.node.client_manager import ClientManager
from holdfast.node.clock import Clock, SystemClock
from holdfast.node.identity import Identity
from holdfast.node.log_topic import LogTopic
from holdfast.node.message_manager import MessageManager
from holdfast.node.settings import NodeSettings

log = logging.getLogger("holdfast.node")

JOURNAL_FOLDER = "journal"
IDENTITY_FILE = "identity"


class Node:
    def __init__(self, channel: Channel, identity: Identity, settings: NodeSettings, clock: Clock | None = None) -> None:
        clock = clock or SystemClock()
        bus = InProcessBus()
        self.channel = channel
        self.identity = identity
        self.settings = settings
        self.messages = MessageManager(settings.name, channel, bus, clock, settings)
        self.clients = ClientManager(self.messages, channel, bus, identity, clock, settings)
        self._log_topic = LogTopic(settings.name, channel, identity, lambda: self.messages.flow.is_blocked(LOG))
        self._administration = AdminQueue(self.messages, channel, bus, identity, clock)
        self.messages.backlogs_changed = self._look_at_log_topic
        self.messages.administration_asked = self._administration.attend
        self._clock = clock

    @classmethod
    async def open(cls, data: Path, settings: NodeSettings) -> Node:
        """Open, or create, the node whose journal and identity lie in a folder."""
        channel = await JournalChannel.open(data / JOURNAL_FOLDER, settings.journal)
        try:
            identity = Identity.open(data / IDENTITY_FILE, settings.site)
        except BaseException:
            await channel.close()
            raise
        return cls(channel, identity, settings)

    @classmethod
    async def in_memory(cls, settings: NodeSettings) -> Node:
        return cls(MemoryChannel(), Identity.in_memory(settings.site), settings)

    async def start(self, before_claim: Callable[[], Awaitable[None]] | None = None) -> None:
        """Begin to accept and to replay; `messages.wait_until_primary` tells when deliveries begin."""
        await self.messages.start(before_claim)
        self.messages.when_primary(self._wait_for_former_sessions)
        self.messages.when_primary(self.clients.give_up_passing)
        self.messages.when_primary(self._look_at_log_topic)
        self.messages.when_primary(self._administration.begin)

    def _look_at_log_topic(self) -> None:
        """Its records are kept only while somebody subscribes to them."""
        self._log_topic.listen(bool(self.messages.directory.catalog.topic(LOG).subscriptions))

    def _wait_for_former_sessions(self) -> None:
        """From now on only: a session cannot be resumed before the channel is replayed, however long that takes."""
        self._clock.call_later(self.settings.start_grace_ms + self.settings.session_grace_ms, self.clients.give_up_unclaimed)

    async def close(self) -> None:
        await self._log_topic.stop()
        await self._administration.stop()
        await self.clients.stop()
        await self.messages.stop()
        await self.channel.close()
        self.identity.close()
