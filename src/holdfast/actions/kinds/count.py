"""`count`: Prometheus counters and histograms, with labels from the event (the extra `actions`; by entry point).

    metrics = "127.0.0.1:9464"           # at the top of the rules file

    do = "count"
    metric = "orders_failed_total"
    labels = { site = "site", kind = "{data.kind|other}" }
    value = "amount"                     # a field to add up, instead of 1 for each event
    buckets = [0.1, 1, 10]               # then it is a histogram of the field `value`

A label is a field of the event, or a template. Counters begin at 0 when the program starts, as Prometheus expects; a reload
keeps them, but for a metric that has other labels or buckets now. An alert that was counted, and not confirmed before a kill, is
counted again by the next program, which begins at 0 anyway.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from holdfast.actions.alert import Alert
from holdfast.actions.errors import ActionRefused
from holdfast.actions.kinds.action import Action, Complaint, Surroundings
from holdfast.actions.kinds.figures import MEANINGS, Figures
from holdfast.actions.machines.seen import field_of

SHARED = "holdfast.actions.counters"
# Series of one metric; more would be a mistake of who chose the labels. The rest has the label values "other".
SERIES_MAX = 1_000
OTHER = "other"
OWN = "holdfast_rules_"

Shape = tuple[tuple[str, ...], tuple[float, ...]]  # names of labels, and buckets


class _OwnFigures(Collector):
    """The figures of the rules themselves."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        made = {
            name: CounterMetricFamily(f"{OWN}{name}", text, labels=["rule"] if name == "alerts" else ["rule", "action"])
            for name, text in MEANINGS.items()
        }
        for (name, rule, action), count in self._figures.rows().items():
            made[name].add_metric([rule, action] if action else [rule], count)
        yield from made.values()


class Counters:
    """The counters of a program, and the server that shows them. They outlive a reload of the rules."""

    def __init__(self, address: str, figures: Figures) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_OwnFigures(figures))
        self._metrics: dict[str, tuple[Shape, MetricWrapperBase]] = {}
        self._series: dict[str, set[tuple[str, ...]]] = {}
        self._lock = threading.Lock()
        host, _, port = address.rpartition(":")
        server, _ = start_http_server(int(port), host.strip("[]"), self.registry)
        self.port = int(server.server_port)

    def metric(self, settings: Count.Settings, rule: str) -> MetricWrapperBase:
        with self._lock:
            known = self._metrics.get(settings.metric)
            if known is not None and known[0] != shape_of(settings):  # the rules were changed: it begins anew
                self.registry.unregister(known[1])
                self._series.pop(settings.metric, None)
                known = None
            if known is None:
                known = shape_of(settings), _made(settings, settings.help or f"events of rule {rule}", self.registry)
                self._metrics[settings.metric] = known
            return known[1]

    def labels(self, metric: str, values: tuple[str, ...]) -> tuple[str, ...]:
        """The values of the labels; "other" past the limit."""
        with self._lock:
            known = self._series.setdefault(metric, set())
            if values in known or len(known) < SERIES_MAX:
                known.add(values)
                return values
            return (OTHER,) * len(values)


def shape_of(settings: Count.Settings) -> Shape:
    """What is the same in all actions that count for one metric."""
    return tuple(settings.labels), tuple(settings.buckets)


def _made(settings: Count.Settings, text: str, registry: CollectorRegistry | None) -> MetricWrapperBase:
    if settings.buckets:
        return Histogram(settings.metric, text, list(settings.labels), registry=registry, buckets=settings.buckets)
    return Counter(settings.metric, text, list(settings.labels), registry=registry)


class Count(Action):
    class Settings(msgspec.Struct, kw_only=True):
        metric: str
        labels: dict[str, str] = {}
        value: str = ""
        buckets: list[float] = []
        help: str = ""

    settings: Settings
    BATCH_MAX = 500
    NEEDS_METRICS = True

    def __init__(self, settings: Any, surroundings: Surroundings) -> None:
        super().__init__(settings, surroundings)
        self._counters: Counters | None = None

    @classmethod
    def complaints(cls, settings: Any) -> Iterator[Complaint]:
        try:
            _made(settings, "checked", None)
        except ValueError as problem:
            yield "metric", f"Prometheus does not take it: {problem}"
        if settings.metric.startswith(OWN):
            yield "metric", f"names that begin with {OWN} are those of Holdfast itself; use another one"
        if settings.buckets and not settings.value:
            yield "buckets", 'a histogram needs the field whose values it counts; give value = "seconds"'
        if settings.buckets != sorted(set(settings.buckets)):
            yield "buckets", "buckets are numbers that grow"

    @classmethod
    def shares(cls, settings: Any) -> tuple[str, object] | None:
        return f"metric {settings.metric!r}", shape_of(settings)

    def open(self) -> None:
        self._shown()

    def do(self, alerts: Sequence[Alert]) -> None:
        counters = self._shown()
        for alert in alerts:
            metric = counters.metric(self.settings, alert.rule)
            values = tuple(self._label(text, alert) for text in self.settings.labels.values())
            series: Any = metric.labels(*counters.labels(self.settings.metric, values)) if values else metric
            if self.settings.buckets:
                series.observe(self._value(alert))
            else:
                series.inc(self._value(alert) if self.settings.value else max(alert.count, 1))

    def _shown(self) -> Counters:
        if self._counters is None:
            self._counters = self.surroundings.shared(
                SHARED, lambda: Counters(self.surroundings.metrics, self.surroundings.figures)
            )
        return self._counters

    def _label(self, text: str, alert: Alert) -> str:
        return alert.fill_text(text if "{" in text else f"{{{text}}}")

    def _value(self, alert: Alert) -> float:
        found = field_of(alert.example, self.settings.value)
        if isinstance(found, bool) or not isinstance(found, int | float) or (found < 0 and not self.settings.buckets):
            raise ActionRefused(f"the event has no number {self.settings.value!r} that can be counted, but {found!r:.40}")
        return float(found)

    def describe(self, alert: Alert) -> str:
        labels = {name: self._label(text, alert) for name, text in self.settings.labels.items()}
        return f"count {self.settings.metric}{labels or ''}"
