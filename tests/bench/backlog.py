"""Measure f: ten million events waiting in one queue: the server's memory, and whether it stays as quick as with none.

Filled twice: in batches, through the client; and one by one over the wire, each event a batch of its own (`single_sender`). The
rates are those of the last events sent and of the first received, compared with a queue that is filled in the same way with just
as many events as are received.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.bench.peers.holdfast import QUEUE, HoldfastClient, Server
from tests.bench.results import Target, ratios
from tests.bench.single_sender import SingleSender
from tests.bench.workshop import EVENT_BYTES, Workshop, seconds

PROBES = 3
MEMORY_BYTES_MAX = 300e6
# The rate with ten million waiting, of that with none. Flat would be 1; this allows for a disk that is busy with something else.
FLAT_SHARE = 0.8
# Single events carry little, so that ten million of them fit the journal: their own heads are most of it.
SINGLE_BYTES = 16

Fill = Callable[[HoldfastClient, Server, int], None]


def _fill_in_batches(client: HoldfastClient, server: Server, count: int) -> None:
    client.send_pipelined(bytes(EVENT_BYTES), count)


class _Singles:
    """Keeps one sender, so that its sessions are opened once."""

    def __init__(self) -> None:
        self._sender: SingleSender | None = None

    def __call__(self, client: HoldfastClient, server: Server, count: int) -> None:
        if self._sender is None:
            self._sender = client.loop.run(SingleSender.open(server.port, QUEUE, bytes(SINGLE_BYTES)))
        client.loop.run(self._sender.send(count))


def measure(workshop: Workshop) -> None:
    _measure(workshop, "in batches", lambda: _fill_in_batches)
    _measure(workshop, "one by one", _Singles)


def _measure(workshop: Workshop, how: str, make_fill: Callable[[], Fill]) -> None:
    probe, total = workshop.scale.probe_events, workshop.scale.backlog_events
    fresh_sent, fresh_received, _ = _fill_and_receive(workshop, how, make_fill(), PROBES * probe)
    long_sent, long_received, memory = _fill_and_receive(workshop, how, make_fill(), total)
    results, many = workshop.results, f"{total:,} waiting, sent {how}"
    results.note("f", f"send {how}", "events/s", {"into an empty queue": fresh_sent[:PROBES], many: long_sent[-PROBES:]})
    results.note("f", f"receive, sent {how}", "events/s", {"from a short queue": fresh_received, many: long_received})
    results.note("f", "memory of the server", "MB", {many: [memory / 1e6]})
    results.find("f", f"memory with {many}", [memory / 1e6], Target(at_most=MEMORY_BYTES_MAX / 1e6), "MB")
    flat = Target(at_least=FLAT_SHARE)
    results.find("f", f"send rate with {many} / empty", ratios(long_sent[-PROBES:], fresh_sent[:PROBES]), flat)
    results.find("f", f"receive rate with {many} / short", ratios(long_received, fresh_received), flat)


def _fill_and_receive(workshop: Workshop, how: str, fill: Fill, total: int) -> tuple[list[float], list[float], int]:
    """Rates of sending by probe, rates of receiving by probe, and the server's memory when all was waiting."""
    probe, server = workshop.scale.probe_events, Server()
    try:
        server.start(workshop.folder("backlog"))
        client = server.connect()
        sent = []
        for done in range(0, total, probe):
            workshop.tell(f"filling a queue {how}: {done:,} of {total:,}")
            sent.append(probe / seconds(lambda: fill(client, server, probe)))
        memory = _settled_memory_bytes(server)
        workshop.tell(f"receiving beside {total:,} waiting, sent {how}")
        received = [probe / seconds(lambda: client.receive_and_confirm(probe, len)) for _ in range(PROBES)]
        client.close()
        return sent, received, memory
    finally:
        server.stop()


def _settled_memory_bytes(server: Server) -> int:
    """Once what was under way is done, and memory is no longer moving."""
    before, deadline = -1, time.monotonic() + 10
    now = server.memory_bytes
    while abs(now - before) > 1e6 and time.monotonic() < deadline:
        time.sleep(0.5)
        before, now = now, server.memory_bytes
    return now
