"""A node of one process: message managers, each with its channel, and a client manager, joined by an in-process bus.

    open ─▶ accepting (the tails are found; links are taken; events are accepted)
         ─▶ delivering (the channels are replayed, the claims applied)
         ─▶ closed

There is one message manager, or several by name (`managers` of the settings, ADR 22):

    DATA/journal                  of one alone
    DATA/managers/m1/journal …    of several; DATA/places says where each destination is

The same object is behind the server (links come over TCP) and behind embedded mode (links are in process).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from holdfast.access import users
from holdfast.bus.bus import Bus, InProcessBus
from holdfast.channel.channel import Channel
from holdfast.channel.journal.journal_channel import JournalChannel
from holdfast.channel.memory_channel import MemoryChannel
from holdfast.cluster.places import PlaceTable
from holdfast.destination.name import LOG
from holdfast.errors import BadSetting, HoldfastError, NotAJournal
from holdfast.node import places_file, supervision
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
MANAGERS_FOLDER = "managers"
IDENTITY_FILE = "identity"


class Node:
    def __init__(
        self,
        managers: Mapping[str, MessageManager],
        places: PlaceTable | None,
        identity: Identity,
        bus: Bus,
        clock: Clock,
        settings: NodeSettings,
    ) -> None:
        """`managers`, by the names of their channels, were opened just now: they have applied nothing since, and published
        nothing. The first has `_ADMIN` and `_LOG`."""
        self.managers = managers
        self.messages = messages = next(iter(managers.values()))
        self._channel = channel = messages.channel
        self.identity = identity
        self.settings = settings
        views = [(name, LocalView(each), each.channel) for name, each in managers.items()]
        shared = (messages.turn, messages.operator_log, messages.figures)
        self.clients = ClientManager(views, places, bus, identity, clock, settings, *shared)
        self._clock = clock
        self._log_topic = LogTopic(settings.name, channel, identity, lambda: messages.flow.is_blocked(LOG))
        self.clients.take_log = self._log_topic.take
        self._administration = AdminQueue(views, places, bus, identity, clock)
        messages.backlogs_changed = self._listen_to_log
        messages.administration_asked = self._administration.attend
        self._log_topic.begin()
        for name, each in managers.items():
            each.operator_log.begin()
            if places is not None:
                each.when_primary(partial(self._reconcile, places, name))
            each.when_primary(partial(self._wait_for_former_sessions, name))
            each.when_primary(partial(self.clients.give_up_passing, name))
        messages.when_primary(self._listen_to_log)
        messages.when_primary(self._administration.begin)

    @classmethod
    async def open(
        cls, data: Path, settings: NodeSettings, clock: Clock | None = None, before_claim: BeforeClaim | None = None
    ) -> Node:
        """Open, or create, the node whose journals and identity lie in a folder. `before_claim` is for one manager alone."""
        _check_layout(data, settings)
        if before_claim is not None and settings.managers:
            raise BadSetting(
                "what a boot recorder holds is taken by one message manager alone; leave managers out", setting="boot"
            )
        restored = restored_in(data / IDENTITY_FILE)
        async with AsyncExitStack() as opened:
            channels: dict[str, Channel] = {}
            for name in settings.managers or ("",):
                folder = data / MANAGERS_FOLDER / name / JOURNAL_FOLDER if name else data / JOURNAL_FOLDER
                channel = channels[name] = await JournalChannel.open(folder, settings.journal, restored=restored)
                opened.push_async_callback(channel.close)
            identity = Identity.open(data / IDENTITY_FILE, settings.site)
            opened.pop_all()
        return await cls._over(channels, identity, settings, clock, before_claim, data / places_file.FILE)

    @classmethod
    async def in_memory(cls, settings: NodeSettings) -> Node:
        channels: dict[str, Channel] = {name: MemoryChannel() for name in settings.managers or ("",)}
        return await cls._over(channels, Identity.in_memory(settings.site), settings)

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
        return await cls._over({"": channel}, identity, settings, clock, before_claim)

    @classmethod
    async def _over(
        cls,
        channels: Mapping[str, Channel],
        identity: Identity,
        settings: NodeSettings,
        clock: Clock | None = None,
        before_claim: BeforeClaim | None = None,
        file: Path | None = None,
    ) -> Node:
        clock, bus = clock or SystemClock(), InProcessBus()
        managers: dict[str, MessageManager] = {}
        async with AsyncExitStack() as opened:
            opened.callback(identity.close)
            for channel in channels.values():
                opened.push_async_callback(channel.close)
            places = places_file.open_table(settings.managers, settings.placement, file) if settings.managers else None
            for name, channel in channels.items():
                shown, told = name or settings.name, OperatorLog(channel)
                managers[name] = await MessageManager.open(shown, channel, bus, clock, settings, told, before_claim)
                opened.push_async_callback(managers[name].stop)
            node = cls(managers, places, identity, bus, clock, settings)
            opened.pop_all()
        return node

    def _reconcile(self, places: PlaceTable, name: str) -> None:
        places_file.reconcile(places, name, list(self.managers[name].directory.catalog.destinations))

    def _listen_to_log(self) -> None:
        """Write the log to its topic only while somebody subscribes to it."""
        self._log_topic.listen(bool(self.messages.directory.catalog.topic(LOG).subscriptions))

    def _wait_for_former_sessions(self, name: str) -> None:
        """Give sessions from before the start their time to come back, counted from now: none can be resumed before the channel
        is replayed. Nobody else gets events that such a session may hold, until it is detached."""
        grace_ms = self.settings.former_grace_ms
        if grace_ms:
            self._clock.call_later(grace_ms, partial(self.clients.give_up_unclaimed, name))
        else:
            self.clients.give_up_unclaimed(name)
        self._clock.call_later(grace_ms + self.settings.session_grace_ms, partial(self._stop_waiting, name))

    def _stop_waiting(self, name: str) -> None:
        """Stop waiting for former receivers, again and again until none is left: one about to attach may have been refused."""
        if self.managers[name].deliverer.stop_waiting():
            self._clock.call_later(self.settings.session_grace_ms, partial(self._stop_waiting, name))

    @property
    def channel(self) -> Channel:
        """That of the first message manager."""
        return self._channel

    @property
    def failure(self) -> HoldfastError | None:
        """Why one of its message managers cannot go on."""
        return next((each.failure for each in self.managers.values() if each.failure is not None), None)

    async def failed(self) -> None:
        """Return when one of its message managers cannot go on, never otherwise."""
        waiting = [supervision.start(each.ended(), f"waiting for the end of {each.name}") for each in self.managers.values()]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()

    def take_users(self, path: Path, text: str) -> None:
        """The users file was read again."""
        self.clients.use_users(users.read(text))

    async def leave(self) -> None:
        """Nobody goes on in the place of a server that is alone."""

    async def close(self) -> None:
        for each in self.managers.values():
            each.operator_log.stop()
        await self._log_topic.stop()
        await self._administration.stop()
        await self.clients.stop()
        for each in self.managers.values():
            await each.stop()
            await each.channel.close()
        self.identity.close()


def _check_layout(data: Path, settings: NodeSettings) -> None:
    """NotAJournal for a folder that is opened with other message managers than it was made with: destinations would be missing,
    and patterns not be known to a new one."""
    folder = data / MANAGERS_FOLDER
    several = sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
    made = several or ([""] if (data / JOURNAL_FOLDER).is_dir() else [])
    if made and made != (sorted(settings.managers) or [""]):
        had, asked = (", ".join(each) or "one alone" for each in (several, settings.managers))
        raise NotAJournal(
            f"the folder {str(data)!r} was made with the message managers {had}, and is opened with {asked}; open it as it was "
            "made",
            folder=str(data),
        )
