"""A node of one process: a channel, its message manager and a client manager, joined by an in-process bus.

    open ─▶ accepting (the tail is found; links are taken; events are accepted)
         ─▶ delivering (the channel is replayed, the claim applied)
         ─▶ closed

The same object is behind the server (links come over TCP) and behind embedded mode (links are in process).
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from holdfast.bus.bus import Bus, InProcessBus
from holdfast.channel.channel import Channel
from holdfast.channel.journal.journal_channel import JournalChannel
from holdfast.channel.memory_channel import MemoryChannel
from holdfast.destination.name import LOG
from holdfast.node.administration.admin_queue import AdminQueue
from holdfast.node.clients.client_manager import ClientManager
from holdfast.node.clock import Clock, SystemClock
from holdfast.node.identity import Identity, restored_in
from holdfast.node.logs.log_topic import LogTopic
from holdfast.node.logs.operator_log import OperatorLog
from holdfast.node.messages.local_view import LocalView
from holdfast.node.messages.message_manager import MessageManager
from holdfast.node.messages.start import BeforeClaim
from holdfast.node.settings import NodeSettings

JOURNAL_FOLDER = "journal"
IDENTITY_FILE = "identity"


class Node:
    def __init__(self, messages: MessageManager, identity: Identity, bus: Bus, clock: Clock, settings: NodeSettings) -> None:
        """`messages` was opened just now: it has applied nothing since, and published nothing."""
        self.channel = channel = messages.channel
        self.identity = identity
        self.settings = settings
        self.messages = messages
        view = LocalView(messages)
        shared = (messages.turn, messages.operator_log, messages.figures)
        self.clients = ClientManager(view, channel, bus, identity, clock, settings, *shared)
        self._clock = clock
        self._log_topic = LogTopic(settings.name, channel, identity, lambda: messages.flow.is_blocked(LOG))
        self.clients.take_log = self._log_topic.take
        self._administration = AdminQueue(view, channel, bus, identity, clock)
        messages.backlogs_changed = self._listen_to_log
        messages.administration_asked = self._administration.attend
        self._log_topic.begin()
        messages.operator_log.begin()
        messages.when_primary(self._wait_for_former_sessions)
        messages.when_primary(self.clients.give_up_passing)
        messages.when_primary(self._listen_to_log)
        messages.when_primary(self._administration.begin)

    @classmethod
    async def open(
        cls, data: Path, settings: NodeSettings, clock: Clock | None = None, before_claim: BeforeClaim | None = None
    ) -> Node:
        """Open, or create, the node whose journal and identity lie in a folder."""
        restored = restored_in(data / IDENTITY_FILE)
        channel = await JournalChannel.open(data / JOURNAL_FOLDER, settings.journal, restored=restored)
        try:
            identity = Identity.open(data / IDENTITY_FILE, settings.site)
        except BaseException:
            await channel.close()
            raise
        return await cls.over(channel, identity, settings, clock, before_claim)

    @classmethod
    async def in_memory(cls, settings: NodeSettings) -> Node:
        return await cls.over(MemoryChannel(), Identity.in_memory(settings.site), settings)

    @classmethod
    async def over(
        cls,
        channel: Channel,
        identity: Identity,
        settings: NodeSettings,
        clock: Clock | None = None,
        before_claim: BeforeClaim | None = None,
    ) -> Node:
        """A node over an open channel, which it owns: the channel is closed with it, or if it cannot be opened.

        It accepts and replays from now on; `messages.wait_until_primary` tells when deliveries begin.
        """
        clock, bus = clock or SystemClock(), InProcessBus()
        async with AsyncExitStack() as opened:
            opened.callback(identity.close)
            opened.push_async_callback(channel.close)
            messages = await MessageManager.open(settings.name, channel, bus, clock, settings, OperatorLog(channel), before_claim)
            opened.push_async_callback(messages.stop)
            node = cls(messages, identity, bus, clock, settings)
            opened.pop_all()
        return node

    def _listen_to_log(self) -> None:
        """Write the log to its topic only while somebody subscribes to it."""
        self._log_topic.listen(bool(self.messages.directory.catalog.topic(LOG).subscriptions))

    def _wait_for_former_sessions(self) -> None:
        """Give sessions from before the start their time to come back, counted from now: none can be resumed before the channel
        is replayed. Nobody else gets events that such a session may hold, until it is detached."""
        grace_ms = self.settings.former_grace_ms
        if grace_ms:
            self._clock.call_later(grace_ms, self.clients.give_up_unclaimed)
        else:
            self.clients.give_up_unclaimed()
        self._clock.call_later(grace_ms + self.settings.session_grace_ms, self._stop_waiting)

    def _stop_waiting(self) -> None:
        """Stop waiting for former receivers, again and again until none is left: one about to attach may have been refused."""
        if self.messages.deliverer.stop_waiting():
            self._clock.call_later(self.settings.session_grace_ms, self._stop_waiting)

    async def close(self) -> None:
        self.messages.operator_log.stop()
        await self._log_topic.stop()
        await self._administration.stop()
        await self.clients.stop()
        await self.messages.stop()
        await self.channel.close()
        self.identity.close()
