"""The metrics of a server, in the text format of Prometheus. `docs/metrics.md` lists them; a test holds the two together.

    numbers are taken in the server's loop, in turns ──▶ Reading ──▶ text, made in a thread

Counts by destination live as long as the journal; all other counts begin anew with each start. A node of a cluster has
`CLUSTER_METRICS` beside the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast.http.backlog_figures import Row
from holdfast.node.figures import Histogram

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


MANAGER = ("manager",)

CLUSTER_METRICS: dict[str, Described] = {
    "cluster_nodes": Described("gauge", (), "Nodes of the cluster that this one hears, itself among them."),
    "cluster_silent_nodes": Described("gauge", (), "Nodes that are named in the settings, or were heard, and are silent."),
    "cluster_is_cut_off": Described("gauge", (), "1 while this node does not hear its own heartbeats."),
    "cluster_heartbeats_missed_total": Described("counter", ("node",), "Heartbeats of this node that did not come, or late."),
    "cluster_is_led": Described("gauge", MANAGER, "1 while this node hears a primary of the message manager."),
    "cluster_is_primary": Described("gauge", MANAGER, "1 while the copy of this node is the primary."),
    "cluster_epoch": Described("gauge", MANAGER, "The newest epoch of the message manager that this node has heard of."),
    "cluster_lag_entries": Described("gauge", MANAGER, "Entries that are durable and not applied by the copy of this node."),
    "cluster_lag_seconds": Described("gauge", MANAGER, "For how long the oldest of them has been known to be durable."),
    "cluster_takeovers_total": Described("counter", MANAGER, "Takeovers by this node since its start."),
    "cluster_takeover_seconds": Described("histogram", (), "Time from the last heartbeat of the former primary to the takeover."),
    "cluster_in_doubt_transactions": Described("gauge", MANAGER, "Transactions in doubt, as the copy of this node knows them."),
    "cluster_append_seconds": Described("histogram", (), "Time until a command is on the disks of a majority of NATS servers."),
    "cluster_unacknowledged_bytes": Described("gauge", ("side",), "Bytes sent on links of this side and not acknowledged."),
    "cluster_held_batches": Described("gauge", MANAGER, "Batches that wait at this node until it hears the primary."),
    "cluster_log_dropped_total": Described("counter", (), "Lines of the log of this node that did not come into _LOG."),
    "cluster_refused_epochs_total": Described("counter", ("side",), "Frames of, or for, deposed primaries that were dropped."),
}  # fmt: skip


class Reading(NamedTuple):
    """The numbers of one moment."""

    listed: Mapping[str, Described]
    values: Mapping[str, float]
    by_label: Mapping[str, Mapping[str, float]]  # of metrics with one label
    histograms: Mapping[str, tuple[Iterable[float], list[int], float]]
    rows: list[Row]
    version: str
    node: str


def copied(histogram: Histogram) -> tuple[Iterable[float], list[int], float]:
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
        return [self._family(name, described) for name, described in self._reading.listed.items()]

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
            for label, value in reading.by_label[name].items():
                family.add_metric([label], value)
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
