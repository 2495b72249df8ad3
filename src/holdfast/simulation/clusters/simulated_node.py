"""A simulated node: the real node of a cluster, in a process that may be paused, crash, and start again.

A crash takes everything but its identity: links are reset (or not, when the whole machine is gone), what was on its way may
arrive, and the next start has another start id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from holdfast.bus.message_codec import MessageCodec
from holdfast.bus.nats.nats_bus import NatsBus
from holdfast.channel.jetstream.jetstream_channel import JetStreamChannel
from holdfast.channel.jetstream.settings import JetStreamSettings
from holdfast.event import identifier
from holdfast.event.identifier import Starts
from holdfast.node.administration.arguments import ACTIONS
from holdfast.node.clock import SystemClock
from holdfast.node.clustered.cluster_node import ClusterNode
from holdfast.node.clustered.cluster_settings import ClusterSettings
from holdfast.node.clustered.configuration.setting_kinds import essential_values
from holdfast.node.clustered.configuration.shared_configuration import SharedConfiguration
from holdfast.node.identity import Identity
from holdfast.node.settings import NodeSettings
from holdfast.simulation.clusters.channel_servers import ChannelServers
from holdfast.simulation.clusters.process import Process
from holdfast.simulation.clusters.simulated_bus import SimulatedBus, SimulatedConnection
from holdfast.simulation.clusters.simulated_channel import SimulatedChannel
from holdfast.simulation.clusters.simulated_link import Listener

CLUSTER = "simulated"
# No server is at this address: bus and channel are simulated.
NATS = JetStreamSettings(servers=("nats://simulated",), monitors=("http://simulated",))

# Nodes have no files: the configuration is that of the simulation.
NO_FOLDER = Path("/nonexistent/holdfast")

MakeProcess = Callable[[str], Process]


class SimulatedNode:
    def __init__(
        self,
        name: str,
        number: int,
        managers: Mapping[str, Sequence[str]],
        settings: NodeSettings,
        bus: SimulatedBus,
        channels: Mapping[str, ChannelServers],
        make_process: MakeProcess,
    ) -> None:
        self.name = name
        self.listener = Listener(name)
        self.node: ClusterNode | None = None
        self.starts = 0
        self._cluster = ClusterSettings(name=CLUSTER, managers=managers, nats=NATS)
        self._settings = settings
        self._bus = bus
        self._channels = channels
        self._make_process = make_process
        self._identity = Starts(0, number)  # on its disk
        self.process = make_process(name)

    @property
    def is_up(self) -> bool:
        return self.node is not None and not self.process.is_dead

    def start(self) -> None:
        if self.starts:
            self.process = self._make_process(self.name)
        self.starts += 1
        self.listener.process = self.process
        self.process.start(self._open(), f"{self.name}: opening")

    async def _open(self) -> None:
        process = self.process
        self._identity = Starts(0, self._identity.node, self._identity.limit)
        identity = Identity(self._identity)
        start = identifier.to_text(identity.take())
        channels = {name: SimulatedChannel(servers, self._bus.network, process) for name, servers in self._channels.items()}
        bus = NatsBus(SimulatedConnection(self._bus, process), CLUSTER, start, MessageCodec(ACTIONS.values()))
        clock = SystemClock(process.machine_ns, process.steady_ns)
        configuration = SharedConfiguration(NO_FOLDER, essential_values(self._cluster, self._settings), self._settings, None)
        kept = cast("dict[str, JetStreamChannel]", channels)  # the same to its users
        self.node = ClusterNode(self._cluster, self._settings, identity, bus, kept, None, clock, configuration)
        self.listener.accept = self.node.clients.accept

    def crash(self, *, is_machine: bool) -> None:
        """End its process. Of a machine that is gone, nobody hears."""
        self.process.crash()
        self.node, self.listener.accept = None, None
        links, self.listener.links = self.listener.links, []
        for link in () if is_machine else links:
            link.reset()

    def digests(self) -> dict[str, tuple[int, str]]:
        """For each copy here the newest entry that it has applied, and the digest of its state."""
        found = {}
        for name, member in self.node.members.items() if self.node is not None else ():
            if member.manager is not None:
                found[name] = member.manager.applied, member.manager.directory.digest()
        return found
