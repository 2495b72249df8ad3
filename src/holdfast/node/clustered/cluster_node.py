"""A node of a cluster: a client manager, and copies of message managers, with channels and a bus on NATS.

    clients ⇄ client manager ─┬─▶ channel of m1 ─▶ read by every copy of m1, here and on other nodes
                              ├─▶ channel of m2
                              └─▶ bus ⇄ primary of m1, of m2: here, or on another node
    member m1, member m2 … ───▶ heartbeats: who is there, who is primary

Every node has the channels of all message managers, to append to them, and a copy of those for which it is named. Which copy is
primary is judged in the channel (`member`, ADR 26). The client manager asks the primary over the bus, wherever it is.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.bus.message import Heartbeat
from holdfast.bus.message_codec import MessageCodec
from holdfast.bus.nats.bucket import NatsBucket
from holdfast.bus.nats.connection import NatsConnection
from holdfast.bus.nats.nats_bus import NatsBus
from holdfast.channel.channel import Channel
from holdfast.channel.jetstream.jetstream_channel import JetStreamChannel
from holdfast.cluster.missed_beats import MissedBeats
from holdfast.cluster.places import Rule, rules_of
from holdfast.destination.name import LOG
from holdfast.errors import BadSetting, HoldfastError
from holdfast.event import identifier
from holdfast.node import supervision
from holdfast.node.administration.admin_queue import AdminQueue
from holdfast.node.administration.arguments import ACTIONS
from holdfast.node.administration.standing_patterns import subscribe_of
from holdfast.node.clients.client_manager import ClientManager
from holdfast.node.clock import Clock, SystemClock
from holdfast.node.clustered.cluster_settings import ClusterSettings, check_role
from holdfast.node.clustered.configuration.configure_order import ConfigureOrder
from holdfast.node.clustered.configuration.setting_kinds import essential_values
from holdfast.node.clustered.configuration.shared_configuration import SharedConfiguration, nodes_that_differ
from holdfast.node.clustered.configuration.shared_documents import GivenUsers
from holdfast.node.clustered.heartbeat import Heart
from holdfast.node.clustered.member import Member
from holdfast.node.clustered.node_log import NodeLog
from holdfast.node.clustered.orders.check import Checks
from holdfast.node.clustered.orders.drain import Drain
from holdfast.node.clustered.orders.heard import Heard
from holdfast.node.clustered.orders.orders import Orders
from holdfast.node.clustered.orders.takeover import Takeovers
from holdfast.node.clustered.places_bucket import PlacesBucket
from holdfast.node.clustered.roster import Roster
from holdfast.node.figures import Figures
from holdfast.node.identity import Identity
from holdfast.node.logs.operator_log import OperatorLog
from holdfast.node.messages.local_view import LocalView
from holdfast.node.messages.message_manager import MessageManager
from holdfast.node.messages.start import Backup
from holdfast.node.reading.shared_turn import SharedTurn
from holdfast.node.remote.appended_commands import AppendedCommands
from holdfast.node.remote.held_events import HeldEvents
from holdfast.node.remote.noted_channel import NotedChannel
from holdfast.node.remote.remote_view import RemoteView
from holdfast.node.remote.view_answers import ViewAnswers
from holdfast.node.settings import NodeSettings

log = logging.getLogger("holdfast.server")

IDENTITY_FILE = "identity"
# A node that leaves waits so long for NATS to take its last words.
FLUSH_S_MAX = 1.0
# Usually well under a second; while NATS is away, a channel waits a few seconds for what it has sent.
STOP_S_MAX = 10.0


class _Leading(NamedTuple):
    """What a primary has beside it: answers to client managers, the queue `_ADMIN`, and what it tells an operator."""

    answers: ViewAnswers
    administration: AdminQueue | None  # of the first message manager alone
    log: OperatorLog


class ClusterNode:
    def __init__(
        self,
        cluster: ClusterSettings,
        settings: NodeSettings,
        identity: Identity,
        bus: NatsBus,
        channels: Mapping[str, JetStreamChannel],
        places: PlacesBucket | None,
        clock: Clock,
        configuration: SharedConfiguration,
    ) -> None:
        """`places` is shared by all nodes; None with one message manager alone."""
        self.settings = settings
        self.places = places
        self.configuration = configuration
        self.bus = bus
        self.channels = channels
        self.figures = Figures()
        self.missed_beats = MissedBeats()
        self._clock = clock
        self._identity = identity
        whose = Backup(settings.name, bus.endpoint.start)
        self.members = {
            name: self._member(name, whose, nodes.index(settings.name))
            for name, nodes in cluster.managers.items()
            if settings.name in nodes
        }
        self._leading: dict[str, _Leading] = {}
        shared = (SharedTurn(), OperatorLog(next(iter(channels.values()))), self.figures)
        self._views = {name: self._seen(name, channel, is_alone=places is None) for name, channel in channels.items()}
        managers = list(self._views.values())
        self.clients = ClientManager(managers, places, bus, identity, clock, settings, *shared, start=bus.endpoint.start)
        self._roster, self._awaited = Roster(cluster.name, whose.node, cluster.managers), Heard()
        subject = "" if settings.role == "message-manager" else bus.subject
        self._heart = Heart(whose, subject, bus, clock, list(self.members.values()), settings.session_grace_ms, self._heard)
        self._heart.links = lambda: self.clients.open_links
        takeovers = Takeovers(self.members, self._roster, self._heart, self._awaited, clock)
        drain = Drain(self.clients, self._heart, self._roster, takeovers)
        self._orders = Orders(whose, bus, takeovers, drain, Checks(self.members, self._roster, channels))
        self._has_left = False
        self.clients.tell_cluster = self.tell_cluster
        first, channel = next(iter(channels.items()))
        self.log = NodeLog(settings.name, first, channel, identity, lambda: self.clients.flow.is_blocked(LOG))
        self.clients.take_log = self.log.take
        self.clients.order_cluster = self._orders.carry_out
        self.clients.configure_cluster = ConfigureOrder(configuration, self._roster, self._awaited, clock).carry_out
        self._heart.describe = configuration.described
        if configuration.users is not None:
            self.clients.use_users(configuration.users)
        configuration.on_users = self.clients.use_users
        configuration.on_settings = self._use_settings

    @classmethod
    async def open(
        cls,
        data: Path,
        cluster: ClusterSettings,
        settings: NodeSettings,
        clock: Clock | None = None,
        users: GivenUsers | None = None,
        *,
        is_essential_replaced: bool = False,
    ) -> ClusterNode:
        """Join the cluster as the node of the name in `settings`; `data` holds its identity and its copy of what the cluster has:
        configuration, and places where there are several message managers. `users` is the users file of this node. With
        `is_essential_replaced` the cluster has the essential settings of this node from now on, unless nodes run with others."""
        if not cluster.managers:
            raise BadSetting("a cluster has at least one message manager; name it, with its nodes", setting="managers")
        check_role(cluster, settings.name, settings.role)
        async with AsyncExitStack() as opened:
            identity = Identity.open(data / IDENTITY_FILE, settings.site)
            opened.callback(identity.close)
            start = identifier.to_text(identity.take())
            connection = await NatsConnection.open(cluster.nats.servers, **cluster.nats.connect_options)
            bus = NatsBus(connection, cluster.name, start, MessageCodec(ACTIONS.values()))
            opened.push_async_callback(bus.close)
            bucket, replicas = f"holdfast-configuration-{cluster.name}", cluster.nats.replicas
            configuration = await SharedConfiguration.open(
                data,
                essential_values(cluster, settings),
                dataclasses.replace(settings, placement=tuple(cluster.placement)),
                users,
                lambda: NatsBucket.open(connection, bucket, replicas, cluster.nats.timeout_s),
                partial(nodes_that_differ, bus) if is_essential_replaced else None,
            )
            opened.callback(configuration.close)
            channels: dict[str, JetStreamChannel] = {}
            for name in cluster.managers:
                channel = channels[name] = await JetStreamChannel.open(f"{cluster.name}-{name}", cluster.nats)
                opened.push_async_callback(channel.close)
            settings, places = configuration.settings, None
            if len(cluster.managers) > 1:
                places = await _open_places(connection, cluster, _rules(settings, cluster.managers), data)
                opened.push_async_callback(places.close)
            node = cls(cluster, settings, identity, bus, channels, places, clock or SystemClock(), configuration)
            opened.pop_all()
        return node

    @property
    def channel(self) -> Channel:
        """That of the first message manager."""
        return next(iter(self.channels.values()))

    @property
    def failure(self) -> HoldfastError | None:
        """It differs from its cluster. Nothing else keeps it from going on: a copy that cannot follow is opened anew."""
        return self.configuration.failure

    async def failed(self) -> None:
        await self.configuration.failed.wait()

    def take_users(self, path: Path, text: str) -> None:
        """The users file of this node was read again: what was edited there is for all nodes."""

        async def share() -> None:
            try:
                await self.configuration.reload_users(GivenUsers(path, text))
            except HoldfastError as problem:
                log.error("not reloaded, the users from before stay in force: %s", problem)

        self.clients.spawn(share(), "sharing the users file")

    def _use_settings(self, settings: NodeSettings) -> None:
        """The settings of the cluster were changed."""
        self.settings = settings
        self.clients.use_settings(settings)
        self._heart.grace_ms = settings.session_grace_ms
        if self.places is not None:
            self.places.use_rules(_rules(settings, self.places.managers))
        for member in self.members.values():
            if member.manager is not None:
                member.manager.assembly_timeout.use(settings)

    def _heard(self, heartbeat: Heartbeat, now_ms: int) -> None:
        self._roster.heard(heartbeat, now_ms)
        self._awaited.look()
        self.missed_beats.heard(heartbeat.node, now_ms)
        self.log.heard(heartbeat)

    @property
    def held(self) -> dict[str, HeldEvents]:
        """By message manager: events that wait here until its primary is heard."""
        return {name: noted.held for name, (_, _, noted) in self._views.items()}

    def tell_cluster(self) -> dict[str, Any]:
        """The state of the cluster, as this node hears it."""
        return self._roster.told(self._clock.steady_ms())

    # --- copies of message managers ----------------------------------------------------------------------------------

    def _member(self, name: str, whose: Backup, rank: int) -> Member:
        bus = self.bus.manager(name)

        async def open_copy(whose: Backup) -> MessageManager:
            channel = self.channels[name]
            shared = (name, channel, bus, self._clock, self.settings, OperatorLog(channel))
            return await MessageManager.open(*shared, backup=whose)

        def lead(manager: MessageManager, epoch: int) -> None:
            manager.figures.join(self.figures)
            view = LocalView(manager)
            administration = self._administration(name, view, manager.channel)
            self._leading[name] = _Leading(ViewAnswers(view, bus), administration, manager.operator_log)
            if administration is not None:
                manager.administration_asked = administration.attend
                manager.when_primary(administration.begin)
            if self.places is not None:
                manager.when_primary(partial(self._reconcile, self.places, manager))
            manager.operator_log.begin()
            manager.when_primary(self._heart.tell)  # client managers find it by its heartbeat
            bus.lead(epoch)

        async def resign() -> None:
            bus.resign()
            if (leading := self._leading.pop(name, None)) is not None:
                leading.log.stop()
                if leading.administration is not None:
                    await leading.administration.stop()
                await leading.answers.stop()

        return Member(name, whose, rank, open_copy, self._clock, lead, resign)

    def _administration(self, name: str, view: LocalView, channel: Channel) -> AdminQueue | None:
        """The queue `_ADMIN`, which the primary of the first message manager carries out; the others it asks over the bus."""
        if self.places is None:
            return AdminQueue([("", view, channel)], None, self.bus.manager(name), self._identity, self._clock)
        if name != self.places.managers[0]:
            return None
        seen = [(each, view if each == name else self._views[each][1], self.channels[each]) for each in self.places.managers]
        return AdminQueue(seen, self.places, self.bus, self._identity, self._clock, self.bus.subject)

    def _reconcile(self, places: PlacesBucket, manager: MessageManager) -> None:
        """The copy of this node became primary: the table of places has what it has, and it has all patterns."""
        catalog = manager.directory.catalog

        def has(key: str) -> bool:
            topic, _, subscription = key.rpartition(" ")
            return (topic, subscription) in catalog.queues

        places.reconcile(manager.name, list(catalog.destinations), has, partial(self._subscribe, manager.name))

    async def _subscribe(self, manager: str, terms: str) -> None:
        """Have a subscription made, by way of the client manager of this node."""
        target, done = self.clients.managers[manager], asyncio.get_running_loop().create_future()
        token = target.next_token(done.set_result, done.set_exception)
        target.submit(replace(subscribe_of(terms), origin=target.subject, token=token), token)
        await done

    def _seen(self, name: str, channel: Channel, is_alone: bool) -> tuple[str, RemoteView, NotedChannel]:
        """A message manager as the client manager of this node has it, wherever its primary is."""
        appended = AppendedCommands()
        subject = self.bus.subject if is_alone else f"{self.bus.subject}.{name}"
        view = RemoteView(name, subject, self.bus, appended, lambda: channel.durable, self._clock.steady_ms)
        noted = NotedChannel(name, channel, appended, lambda: view.is_fresh, self._clock)
        view.primary_heard = noted.held.go_on
        return "" if is_alone else name, view, noted

    async def leave(self) -> None:
        """Have other nodes go on in the place of this one, if it has not left before."""
        if not self._has_left:
            self._has_left = True
            await self._orders.leave()
            with suppress(TimeoutError, HoldfastError):  # that it leaves is heard before its connection ends
                async with asyncio.timeout(FLUSH_S_MAX):
                    await self.bus.flush()

    async def close(self) -> None:
        """Leave the cluster: other copies take over, and clients go to other nodes. It ends, whatever does not stop."""
        await self.leave()
        try:
            await supervision.bounded(STOP_S_MAX, self._stop(), f"stopping node {self.settings.name}")
        finally:
            self._identity.close()

    async def _stop(self) -> None:
        await self.log.stop()
        self.configuration.close()
        self._heart.stop()
        await self._orders.stop()
        await self.clients.stop()
        for _, view, noted in self._views.values():
            view.stop()
            noted.held.stop()
        for member in self.members.values():
            await member.stop()
        if self.places is not None:
            await self.places.close()
        await self.bus.close()
        for channel in self.channels.values():
            await channel.close()


def _rules(settings: NodeSettings, managers: Iterable[str]) -> list[Rule]:
    """The rules of placement; without those for message managers that are not there any more."""
    there = set(managers)
    return [rule for rule in rules_of(settings.placement) if rule.manager in there]


async def _open_places(connection: NatsConnection, cluster: ClusterSettings, rules: Iterable[Rule], data: Path) -> PlacesBucket:
    """The table of places, in a bucket of this cluster."""
    name = f"holdfast-places-{cluster.name}"

    async def open_bucket() -> NatsBucket:
        return await NatsBucket.open(connection, name, cluster.nats.replicas)

    return await PlacesBucket.open(open_bucket, list(cluster.managers), rules, data / f"places-{cluster.name}")
