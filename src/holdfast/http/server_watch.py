"""What is shown of a server that is alone: its figures, its status, and whether it is ready."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.channel.journal.journal_channel import JournalChannel
from holdfast.http.backlog_figures import BacklogFigures
from holdfast.http.metrics import METRICS, Reading, copied
from holdfast.http.readiness import Readiness
from holdfast.node.administration import arguments
from holdfast.node.clock import Clock
from holdfast.node.messages import answers
from holdfast.node.node import Node


class ServerWatch:
    def __init__(self, node: Node, data: Path, version: str, clock: Clock) -> None:
        """From now on times are taken."""
        self._node = node
        self._version = version
        self._clock = clock
        self._readiness = Readiness(node, data)
        self._backlogs = BacklogFigures(node.messages)
        self._figures = node.messages.figures
        self._figures.is_timing = True
        if isinstance(node.channel, JournalChannel):
            node.channel.watch_syncs(self._figures.syncs.observe)

    async def read(self) -> Reading:
        node, figures = self._node, self._figures
        rows = await self._backlogs.take(self._clock.now_us())
        pressure, messages, login = node.channel.pressure, node.messages, node.clients.login
        values = {
            "is_primary": float(messages.is_primary),
            "links": node.clients.open_links,
            "sessions": len(node.clients.sessions),
            "destinations": len(messages.directory.catalog.destinations),
            "blocked_destinations": len(messages.flow.blocked()),
            "unapplied_entries": max(0, node.channel.durable - messages.applied),
            "login_failures_total": login.failures if login is not None else 0,
            "journal_used_bytes": pressure.used_bytes,
            "journal_size_bytes": pressure.size_bytes,
            "journal_free_bytes": pressure.free_bytes,
            "journal_events_reserve_bytes": pressure.events_reserve_bytes,
            "journal_upkeep_reserve_bytes": pressure.upkeep_reserve_bytes,
            "journal_is_short": float(pressure.is_short),
        }
        by_label = {"deaths_total": dict(figures.deaths), "refusals_total": dict(figures.refusals)}
        timed = {"sync_seconds": figures.syncs, "send_seconds": figures.sends, "end_to_end_seconds": figures.end_to_end}
        histograms = {name: copied(each) for name, each in timed.items()}
        return Reading(METRICS, values, by_label, histograms, rows, self._version, node.settings.name)

    async def status(self) -> dict[str, Any]:
        """As `holdfast status`."""
        status = await answers.status(self._node.messages, arguments.Status())
        return {**status, "links": self._node.clients.open_links, "programs": self._node.clients.programs}

    async def problems(self) -> list[str]:
        return await self._readiness.problems()

    def close(self) -> None:
        self._readiness.close()
