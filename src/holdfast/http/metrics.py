"""The metrics of a server, in the text format of Prometheus. `docs/metrics.md` lists them; a test holds the two together.

    numbers are taken in the server's loop, in turns ──▶ Reading ──▶ text, made in a thread

Counts by destination live as long as the journal; all other counts begin anew with each start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast.channel.journal.journal_channel import JournalChannel
from holdfast.http.backlog_figures import BacklogFigures, Row
from holdfast.node.figures import Histogram
from holdfast.node.node import Node

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "holdfast_"
BACKLOG = ("destination", "subscription")


class Described(NamedTuple):
    kind: str
    labels: tuple[str, ...]
    help: str


METRICS: dict[str, Described] = {
    "info": Described("gauge", ("version", "node"), "1, with the release and the name of the server."),
    "is_primary": Described("gauge", (), "1 when the journal is replayed and events are delivered."),
    "links": Described("gauge", (), "Connections of clients."),
    "sessions": Described("gauge", (), "Sessions of clients, with or without a link."),
    "destinations": Described("gauge", (), "Queues and topics."),
    "blocked_destinations": Described("gauge", (), "Destinations at their high water, whose producers are held back."),
    "unapplied_entries": Described("gauge", (), "Commands that are durable and not applied yet."),
    "accepted_events_total": Described("counter", BACKLOG, "Events placed in a queue or subscription, ever."),
    "delivered_events_total": Described("counter", BACKLOG, "Events handed to recipients since the start, each time counted."),
    "redelivered_events_total": Described("counter", BACKLOG, "Those of them that had been handed out before."),
    "confirmed_events_total": Described("counter", BACKLOG, "Events that recipients have confirmed, ever."),
    "dead_events_total": Described("counter", BACKLOG, "Events that were given up, ever; they wait in _DMQ."),
    "waiting_events": Described("gauge", BACKLOG, "Events that are accepted and not finished."),
    "in_flight_events": Described("gauge", BACKLOG, "Waiting events that a recipient holds."),
    "oldest_waiting_seconds": Described("gauge", BACKLOG, "The age of the oldest event that waits; 0 when none does."),
    "blocked": Described("gauge", BACKLOG, "1 while the destination is at its high water."),
    "deaths_total": Described("counter", ("code",), "Events given up since the start, by the code of the reason."),
    "refusals_total": Described("counter", ("code",), "Requests, sends and links refused since the start, by error code."),
    "login_failures_total": Described("counter", (), "Logins that failed since the start."),
    "journal_used_bytes": Described("gauge", (), "Bytes of the journal that hold something."),
    "journal_size_bytes": Described("gauge", (), "Bytes the journal may grow to."),
    "journal_free_bytes": Described("gauge", (), "Bytes that can still be taken before the reserves."),
    "journal_events_reserve_bytes": Described("gauge", (), "Bytes left of the reserve for events."),
    "journal_upkeep_reserve_bytes": Described("gauge", (), "Bytes left of the reserve for confirms and snapshots."),
    "journal_is_short": Described("gauge", (), "1 while no new space can be had and events draw on their reserve."),
    "sync_seconds": Described("histogram", (), "Time to write and sync one group of commands."),
    "send_seconds": Described("histogram", (), "Time from the arrival of a batch to its receipt."),
    "end_to_end_seconds": Described("histogram", (), "Time from acceptance of an event to its first hand-over to a recipient."),
}  # fmt: skip


class Reading(NamedTuple):
    """The numbers of one moment."""

    values: Mapping[str, float]
    by_code: Mapping[str, Mapping[str, int]]
    histograms: Mapping[str, tuple[Iterable[float], list[int], float]]
    rows: list[Row]
    version: str
    node: str


class Metrics:
    def __init__(self, node: Node, version: str, now_us: Callable[[], int]) -> None:
        """From now on times are taken."""
        self._node = node
        self._version = version
        self._now_us = now_us
        self._backlogs = BacklogFigures(node.messages)
        self._turn = asyncio.Lock()
        self._figures = node.messages.figures
        self._figures.is_timing = True
        if isinstance(node.channel, JournalChannel):
            node.channel.watch_syncs(self._figures.syncs.observe)

    async def text(self) -> bytes:
        """The exposition. One is made at a time, whoever asks."""
        async with self._turn:
            reading = await self._read()
            return await asyncio.to_thread(rendered, reading)

    async def _read(self) -> Reading:
        node, figures = self._node, self._figures
        rows = await self._backlogs.take(self._now_us())
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
        by_code = {"deaths_total": dict(figures.deaths), "refusals_total": dict(figures.refusals)}
        timed = {"sync_seconds": figures.syncs, "send_seconds": figures.sends, "end_to_end_seconds": figures.end_to_end}
        histograms = {name: _copied(each) for name, each in timed.items()}
        return Reading(values, by_code, histograms, rows, self._version, node.settings.name)


def _copied(histogram: Histogram) -> tuple[Iterable[float], list[int], float]:
    return histogram.bounds, list(histogram.counts), histogram.sum


def rendered(reading: Reading) -> bytes:
    """A reading as text. Slow where there are many rows: call it in a thread."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(reading))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def collect(self) -> Iterable[Metric]:
        return [self._family(name, described) for name, described in METRICS.items()]

    def _family(self, name: str, described: Described) -> Metric:
        reading, full = self._reading, PREFIX + name
        if described.kind == "histogram":
            histogram = HistogramMetricFamily(full, described.help)
            bounds, counts, total = reading.histograms[name]
            histogram.add_metric([], _added_up(bounds, counts), total)
            return histogram
        family: CounterMetricFamily | GaugeMetricFamily = (
            CounterMetricFamily(full.removesuffix("_total"), described.help, labels=described.labels)
            if described.kind == "counter"
            else GaugeMetricFamily(full, described.help, labels=described.labels)
        )
        if name == "info":
            family.add_metric([reading.version, reading.node], 1)
        elif described.labels == BACKLOG:
            for row in reading.rows:
                family.add_metric([row.destination, row.subscription], _OF_ROW[name](row))
        elif described.labels:
            for code, count in reading.by_code[name].items():
                family.add_metric([code], count)
        else:
            family.add_metric([], reading.values[name])
        return family


_OF_ROW: dict[str, Callable[[Row], float]] = {
    "accepted_events_total": lambda row: row.counts.accepted,
    "delivered_events_total": lambda row: row.counts.delivered,
    "redelivered_events_total": lambda row: row.counts.redelivered,
    "confirmed_events_total": lambda row: row.counts.confirmed,
    "dead_events_total": lambda row: row.counts.dead,
    "waiting_events": lambda row: row.waiting,
    "in_flight_events": lambda row: row.in_flight,
    "oldest_waiting_seconds": lambda row: row.oldest_seconds,
    "blocked": lambda row: row.blocked,
}


def _added_up(bounds: Iterable[float], counts: list[int]) -> list[tuple[str, float]]:
    """The buckets as Prometheus wants them: each with all that is below it."""
    total, buckets = 0, []
    for bound, count in zip([*map(str, bounds), "+Inf"], counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets
