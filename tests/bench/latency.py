"""Measure d: from the moment an event was due to be sent until its recipient has it, at one rate for all brokers.

The rate is half of what the slowest of them manages one by one, so that none of them queues. Times are counted from when an
event was *due*: a send that is held up counts against the one who held it up, and so do the ones that waited behind it.
"""

from __future__ import annotations

import statistics
import struct
import threading
import time
from collections.abc import Iterator

from tests.bench.peer import Client
from tests.bench.results import ratios
from tests.bench.throughput import ONE_BY_ONE, OURS
from tests.bench.workshop import EVENT_BYTES, Workshop, seconds

_DUE = struct.Struct("<Q")
_PADDING = bytes(EVENT_BYTES - _DUE.size)
P50 = "end to end p50"
P99 = "end to end p99"
# Left out at the start of each run: connections, caches and processors wake up.
WARM_UP_SHARE = 0.1


def measure(workshop: Workshop) -> None:
    brokers = [who for who, peer in workshop.peers.items() if peer.is_broker]
    rate = min(_one_by_one_rate(workshop, who) for who in brokers) / 2
    workshop.results.remarks.append(f"d: every broker was fed {rate:.0f} events/s, one at a time")
    count = max(20, round(rate * workshop.scale.latency_seconds))
    p50: dict[str, list[float]] = {who: [] for who in brokers}
    p99: dict[str, list[float]] = {who: [] for who in brokers}
    for _ in range(workshop.scale.repetitions):
        for who in brokers:
            workshop.tell(f"{who}: latency at {rate:.0f} events/s")
            taken = sorted(_latencies_ms(workshop, who, rate, count))
            p50[who].append(statistics.median(taken))
            p99[who].append(taken[min(len(taken) - 1, int(len(taken) * 0.99))])
    for what, samples in ((P50, p50), (P99, p99)):
        workshop.results.note("d", what, "ms", samples)
        for who in brokers:
            if OURS in samples and who != OURS:
                workshop.results.find("d", f"{what}: Holdfast / {who}", ratios(samples[OURS], samples[who]))


def _one_by_one_rate(workshop: Workshop, who: str) -> float:
    known = workshop.results.samples("b", ONE_BY_ONE).get(who)
    if known:
        return statistics.median(known)
    count = workshop.scale.count(200)
    taken = seconds(lambda: workshop.client(who).send_one_by_one([bytes(EVENT_BYTES)] * count))
    workshop.client(who).receive_and_confirm(count, len)
    return count / taken


def _due(rate: float, count: int) -> Iterator[bytes]:
    """Bodies that say when they were due, each handed out no earlier than that."""
    begun = time.monotonic_ns() + 50_000_000
    for number in range(count):
        due = begun + round(number / rate * 1e9)
        ahead = (due - time.monotonic_ns()) / 1e9
        if ahead > 0:
            time.sleep(ahead)
        yield _DUE.pack(due) + _PADDING


def _latencies_ms(workshop: Workshop, who: str, rate: float, count: int) -> list[float]:
    """Sent from a thread with a connection of its own, received in this one."""
    taken: list[float] = []
    failed: list[BaseException] = []

    def seen(body: bytes) -> None:
        taken.append((time.monotonic_ns() - _DUE.unpack_from(body)[0]) / 1e6)

    def send() -> None:
        try:
            client: Client = workshop.peers[who].connect()
            client.send_one_by_one(_due(rate, count))
            client.close()
        except BaseException as problem:  # told to the thread that waits
            failed.append(problem)

    sender = threading.Thread(target=send, name=f"{who} sender")
    sender.start()
    try:
        workshop.client(who).receive_and_confirm(count, seen)
    finally:
        sender.join()
    if failed:
        raise failed[0]
    return taken[int(len(taken) * WARM_UP_SHARE) :]
