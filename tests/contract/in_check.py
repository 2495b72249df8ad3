"""Which places the contract suites run over in `make check`: those that differ most, and are quick. `make test` runs over all.

clients     memory: all machines, no disk                    server: the journal, sockets and another process
            in `make test`: a folder, two managers, a cluster
channels    in memory, the journal                           in `make test`: JetStream
buses       in a process                                     in `make test`: NATS, a bad network
"""

from __future__ import annotations

import pytest

# Values of parameters, by the fixture that has them.
LEFT_OUT = {
    "url": {"file", "managers", "cluster"},
    "kind": {"jetstream"},
    "lasting_kind": {"jetstream"},
    "bus_kind": {"nats", "bad network"},
    "viewed": {"across nats"},
    "viewed_from_afar": {"across nats"},
}


def mark(item: pytest.Item) -> None:
    """Mark a test that `make check` leaves out for the place that it runs over."""
    if not isinstance(item, pytest.Function):
        return
    chosen = item.callspec.params if getattr(item, "callspec", None) is not None else {}
    if "nats_server" in item.fixturenames or any(chosen.get(fixture) in values for fixture, values in LEFT_OUT.items()):
        item.add_marker(pytest.mark.slow)
