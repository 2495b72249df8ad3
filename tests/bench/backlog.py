"""Measure f: ten million events waiting in one queue: the server's memory, and whether it stays as quick as with none.

Filled twice: in batches, through the client; and one by one over the wire, each event a batch of its own (`single_sender`). The
rates are those of the last events sent and of the first received, compared with a queue that is filled in the same way with just
as many events as are received.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

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

# Sends so many in probes of so many, and tells the rate of each.
Send = Callable[[HoldfastClient, Server, int, int], Iterator[float]]


def measure(workshop: Workshop) -> None:
    _measure(workshop, "in batches", _send_in_batches)
    _measure(workshop, "one by one", _send_one_by_one)


def _send_in_batches(client: HoldfastClient, server: Server, total: int, probe: int) -> Iterator[float]:
    for _ in range(0, total, probe):
        yield probe / seconds(lambda: client.send_pipelined(bytes(EVENT_BYTES), probe))


def _send_one_by_one(client: HoldfastClient, server: Server, total: int, probe: int) -> Iterator[float]:
    sender = client.loop.run(SingleSender.open(server.port, QUEUE, bytes(SINGLE_BYTES)))
    for _ in range(0, total, probe):
        yield probe / seconds(lambda: client.loop.run(sender.send(probe)))
    sender.close()


def _measure(workshop: Workshop, how: str, send: Send) -> None:
    probe, total = workshop.scale.probe_events, workshop.scale.backlog_events
    fresh_sent, fresh_received, _ = _fill_and_receive(workshop, how, send, PROBES * probe)
    long_sent, long_received, memory = _fill_and_receive(workshop, how, send, total)
    results, many = workshop.results, f"{total:,} waiting, sent {how}"
    results.note("f", f"send {how}", "events/s", {"into an empty queue": fresh_sent, many: long_sent})
    results.note("f", f"receive, sent {how}", "events/s", {"from a short queue": fresh_received, many: long_received})
    results.note("f", "memory of the server", "MB", {many: [memory / 1e6]})
    results.find("f", f"memory with {many}", [memory / 1e6], Target(at_most=MEMORY_BYTES_MAX / 1e6), "MB")
    flat = Target(at_least=FLAT_SHARE)
    results.find("f", f"send rate with {many} / empty", ratios(long_sent, fresh_sent), flat)
    results.find("f", f"receive rate with {many} / short", ratios(long_received, fresh_received), flat)


def _fill_and_receive(workshop: Workshop, how: str, send: Send, total: int) -> tuple[list[float], list[float], int]:
    """Rates of the last sent, rates of the first received, and the server's memory when all was waiting."""
    probe, server = workshop.scale.probe_events, Server()
    try:
        server.start(workshop.folder("backlog"))
        client = server.connect()
        sent = []
        for rate in send(client, server, total, probe):
            sent.append(rate)
            workshop.tell(f"filling a queue {how}: {len(sent) * probe:,} of {total:,}")
        memory = _settled_memory_bytes(server)
        workshop.tell(f"receiving beside {total:,} waiting, sent {how}")
        received = [probe / seconds(lambda: client.receive_and_confirm(probe, len)) for _ in range(PROBES)]
        client.close()
        return sent[-PROBES:], received, memory
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
