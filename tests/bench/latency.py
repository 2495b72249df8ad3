"""Measure d: from the moment an event was due to be sent until its recipient has it, at one rate for all brokers.

The rate is half of what the slowest of them manages one by one, so that none of them queues. Times are counted from when an
event was *due*: a send that is held up counts against the one who held it up, and so do the ones that waited behind it. Sender
and recipient are processes of their own, for every broker alike (`end_to_end`).
"""

from __future__ import annotations

import statistics
from functools import partial

from tests.bench.end_to_end import Run
from tests.bench.results import Target, in_turns, ratios
from tests.bench.throughput import ONE_BY_ONE, OURS
from tests.bench.workshop import EVENT_BYTES, Workshop, seconds

P50 = "end to end p50"
P99 = "end to end p99"
# Left out at the start of each run: connections, caches and processors wake up.
WARM_UP_SHARE = 0.1
# No slower than any broker.
RATIO_MAX = 1.0


def measure(workshop: Workshop) -> None:
    brokers = [who for who, peer in workshop.peers.items() if peer.is_broker]
    rate = min(_one_by_one_rate(workshop, who) for who in brokers) / 2
    workshop.results.remarks.append(f"d: every broker was fed {rate:.0f} events/s, one at a time")
    p99: dict[str, list[float]] = {who: [] for who in brokers}

    def p50_of_a_run(who: str) -> float:
        workshop.tell(f"{who}: latency at {rate:.0f} events/s")
        taken = Run(workshop.peers[who].connect, rate, workshop.scale.latency_events).latencies_ms()
        measured = sorted(taken[int(len(taken) * WARM_UP_SHARE) :])
        p99[who].append(measured[int(len(measured) * 0.99)])
        return statistics.median(measured)

    p50 = in_turns(workshop.scale.pairs, {who: partial(p50_of_a_run, who) for who in brokers})
    for what, samples in ((P50, p50), (P99, p99)):
        workshop.results.note("d", what, "ms", samples)
        for who in brokers:
            if OURS in samples and who != OURS:
                compared = ratios(samples[OURS], samples[who])
                workshop.results.find("d", f"{what}: Holdfast / {who}", compared, Target(at_most=RATIO_MAX))


def _one_by_one_rate(workshop: Workshop, who: str) -> float:
    known = workshop.results.samples("b", ONE_BY_ONE).get(who)
    if known:
        return statistics.median(known)
    count = workshop.scale.count(200)
    taken = seconds(lambda: workshop.client(who).send_one_by_one([bytes(EVENT_BYTES)] * count))
    workshop.client(who).receive_and_confirm(count, len)
    return count / taken
