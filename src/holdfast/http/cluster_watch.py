"""What is shown of a node of a cluster: its figures, the state of the cluster as it hears it, and whether it is ready.

A backlog is shown by the node whose copy leads, and by no other: so figures of several nodes can be added up. The space of the
channels, and who is there, are told by every node as it knows them.

A node is ready while its clients can be served through it:

    it hears itself         otherwise it is cut off from the bus, and others have taken over what it led
    its channels answer     otherwise nothing is accepted
    a copy that leads here  follows its channel
    its disk answers        ids are taken from a file

It answers HTTP only while it listens for clients, too. That a message manager has no primary for a moment does not count: no
other node would do better.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from holdfast.http.backlog_figures import BacklogFigures, Row, merged
from holdfast.http.metrics import CLUSTER_METRICS, METRICS, Reading, copied
from holdfast.http.readiness import PROBE_FILE, DiskProbe
from holdfast.node.administration import arguments
from holdfast.node.clock import Clock
from holdfast.node.clustered.cluster_node import ClusterNode
from holdfast.node.clustered.member import TAKEOVER_BOUNDS
from holdfast.node.figures import SEND_BOUNDS, Histogram, added
from holdfast.node.messages import answers
from holdfast.node.messages.message_manager import MessageManager

LISTED = {**METRICS, **CLUSTER_METRICS}
# Longer than the election of another NATS server takes.
UNANSWERED_S_MAX = 12.0
# A primary that is so far behind its channel delivers nothing of use.
BEHIND_S_MAX = 5.0


class ClusterWatch:
    def __init__(self, node: ClusterNode, data: Path, version: str, clock: Clock) -> None:
        """From now on times are taken."""
        self._node = node
        self._version = version
        self._clock = clock
        self._disk = DiskProbe(data / PROBE_FILE)
        self._backlogs: dict[str, tuple[MessageManager, BacklogFigures]] = {}
        self._appends = Histogram(SEND_BOUNDS)
        for channel in node.channels.values():
            channel.watch_appends(self._appends.observe)
        node.figures.is_timing = True
        for manager in self._leading().values():
            manager.figures.is_timing = True

    def _leading(self) -> dict[str, MessageManager]:
        """The copies of this node that are primary, by name."""
        members = self._node.members.items()
        return {name: each.manager for name, each in members if each.manager is not None and each.manager.is_primary}

    # --- figures -----------------------------------------------------------------------------------------------------

    async def read(self) -> Reading:
        node, figures, leading = self._node, self._node.figures, self._leading()
        rows = await self._rows(leading)
        told = node.tell_cluster()
        takeovers = [each.takeover_seconds for each in node.members.values()]
        timed = {
            "sync_seconds": figures.syncs,
            "send_seconds": figures.sends,
            "end_to_end_seconds": figures.end_to_end,
            "cluster_append_seconds": self._appends,
            "cluster_takeover_seconds": added(TAKEOVER_BOUNDS, takeovers),
        }
        histograms = {name: copied(each) for name, each in timed.items()}
        values = {**self._values(leading.values(), told), **self._space()}
        return Reading(LISTED, values, self._by_label(told), histograms, rows, self._version, node.settings.name)

    async def _rows(self, leading: dict[str, MessageManager]) -> list[Row]:
        known = self._backlogs
        self._backlogs = {
            name: known[name] if name in known and known[name][0] is manager else (manager, BacklogFigures(manager))
            for name, manager in leading.items()
        }
        rows = [row for _, each in self._backlogs.values() for row in await each.take(self._clock.now_us())]
        return merged(rows)

    def _values(self, leading: Iterable[MessageManager], told: dict[str, Any]) -> dict[str, float]:
        node, login = self._node, self._node.clients.login
        leads = list(leading)
        lags = [each.channel.durable - each.applied for each in self._copies()]
        return {
            "is_primary": float(all(manager["primary"] is not None for manager in told["managers"])),
            "links": node.clients.open_links,
            "sessions": len(node.clients.sessions),
            "destinations": sum(len(each.directory.catalog.destinations) for each in leads),
            "blocked_destinations": sum(len(each.flow.blocked()) for each in leads),
            "unapplied_entries": sum(max(0, lag) for lag in lags),
            "login_failures_total": login.failures if login is not None else 0,
            "cluster_nodes": sum(each["is_heard"] for each in told["nodes"]),
            "cluster_silent_nodes": len(told["silent"]),
            "cluster_is_cut_off": float(told["is_cut_off"]),
            "cluster_log_dropped_total": node.log.dropped,
        }

    def _copies(self) -> list[MessageManager]:
        return [each.manager for each in self._node.members.values() if each.manager is not None]

    def _space(self) -> dict[str, float]:
        """That of all channels together; short while one of them is."""
        pressures = [each.pressure for each in self._node.channels.values()]
        names = ("used_bytes", "size_bytes", "free_bytes", "events_reserve_bytes", "upkeep_reserve_bytes")
        sums: dict[str, float] = {f"journal_{name}": sum(getattr(each, name) for each in pressures) for name in names}
        return {**sums, "journal_is_short": float(any(each.is_short for each in pressures))}

    def _by_label(self, told: dict[str, Any]) -> dict[str, dict[str, float]]:
        node, now_ms = self._node, self._clock.steady_ms()
        members = node.members.items()
        copies = {name: each.manager for name, each in members if each.manager is not None}
        epochs = {each["name"]: each["epoch"] for each in told["managers"]}
        for name, each in members:  # a claim may be applied before a heartbeat tells it
            epochs[name] = max(epochs[name], each.candidate.epoch)
        own, led = node.bus.links, [node.bus.manager(name) for name in node.members]
        return {
            "deaths_total": dict(node.figures.deaths),
            "refusals_total": dict(node.figures.refusals),
            "cluster_heartbeats_missed_total": dict(node.missed_beats.counts(now_ms)),
            "cluster_is_led": {each["name"]: float(each["primary"] is not None) for each in told["managers"]},
            "cluster_is_primary": {name: float(each.is_primary) for name, each in members},
            "cluster_epoch": epochs,
            "cluster_lag_entries": {name: max(0, each.channel.durable - each.applied) for name, each in copies.items()},
            "cluster_lag_seconds": {name: each.candidate.behind_ms(now_ms) / 1000 for name, each in members},
            "cluster_takeovers_total": {name: each.takeovers for name, each in members},
            "cluster_in_doubt_transactions": {
                name: sum(1 for _ in each.directory.transactions.in_doubt()) for name, each in copies.items()
            },
            "cluster_held_batches": {name: len(each) for name, each in node.held.items()},
            "cluster_unacknowledged_bytes": {
                "client_manager": own.unacknowledged_bytes,
                "message_manager": sum(each.unacknowledged_bytes for each in led),
            },
            "cluster_refused_epochs_total": {
                "client_manager": own.older_refused,
                "message_manager": sum(each.older_refused for each in led),
            },
        }

    # --- status and readiness ----------------------------------------------------------------------------------------

    async def status(self) -> dict[str, Any]:
        """As `holdfast cluster status`, and of each copy that leads here as `holdfast status`."""
        clients = self._node.clients
        leads = {name: await answers.status(each, arguments.Status()) for name, each in self._leading().items()}
        return {**self._node.tell_cluster(), "leads": leads, "links": clients.open_links, "programs": clients.programs}

    async def problems(self) -> list[str]:
        node, found = self._node, []
        if node.tell_cluster()["is_cut_off"]:
            found.append("this node does not hear itself: it is cut off from the NATS servers")
        for name, channel in node.channels.items():
            if unanswered := channel.unanswered(UNANSWERED_S_MAX):
                found.append(f"nothing can be appended to the channel of {name}: {unanswered}")
            elif channel.pressure.is_short and not channel.pressure.events_reserve_bytes:
                found.append(
                    f"the channel of {name} is full ({channel.pressure.reason}); recipients must confirm, or it must be given "
                    "more room"
                )
        for name, member in node.members.items():
            behind_s = member.candidate.behind_ms(self._clock.steady_ms()) / 1000
            if member.is_primary and behind_s > BEHIND_S_MAX:
                found.append(f"the primary of {name}, which is here, is {behind_s:.0f} s behind its channel")
        disk = await self._disk.problem()
        return [*found, disk] if disk else found

    def close(self) -> None:
        self._disk.close()
