"""The metrics of a relay, for Prometheus. `docs/relays.md` lists them; a test holds the two together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast.errors import Unavailable
from holdfast.node.settings import parse_address

if TYPE_CHECKING:
    from holdfast.relay.relay import Relay

PREFIX = "holdfast_relay_"
# By name: the kind, and what it tells.
METRICS = {
    "received": ("counter", "Events that came from upstream, for the first time or again."),
    "appended": ("counter", "Events that became durable here."),
    "again": ("counter", "Events that came again, and were here already."),
    "confirmed": ("counter", "Events whose confirm upstream has applied."),
    "rejected": ("counter", "Events that died here and were rejected upstream."),
    "sampled": ("counter", "Events that sampling left out."),
    "looped": ("counter", "Events that came from here, had passed too many relays, or were a relay's own."),
    "waiting_upstream": ("gauge", "Events that wait upstream."),
    "waiting_here": ("gauge", "Events that wait for their recipients here, and upstream for these."),
    "marks": ("gauge", "Marks that are kept."),
    "is_held_back": ("gauge", "1 while something holds the route back."),
}


class RelayCollector(Collector):
    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def collect(self) -> Iterable[Metric]:
        routes = self._relay.status()["routes"]
        for name, (kind, told) in METRICS.items():
            make = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
            family = make(PREFIX + name, told, labels=("route",))
            for route in routes:
                value = bool(route["held_back"]) if name == "is_held_back" else route.get(name)
                if value is not None:
                    family.add_metric((route["route"],), float(value))
            yield family


def serve(relay: Relay, address: str) -> int:
    """Answer HTTP at an address, in a thread of its own; return the port."""
    host, port = parse_address(address, "--metrics")
    registry = CollectorRegistry()
    registry.register(RelayCollector(relay))
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as problem:
        raise Unavailable(
            f"cannot listen on {address} for metrics ({problem.strerror}); choose another with --metrics"
        ) from problem
    return int(server.server_port)
