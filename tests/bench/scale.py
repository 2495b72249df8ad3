"""How much is measured: all of it, or just enough to see that the bench itself works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    repetitions: int
    share: float  # of each peer's own count of events for one repetition
    rounds: int  # short ones, where what is compared differs by less than the machine does from one second to the next
    latency_events: int  # sent in one run
    journal_appends: int
    backlog_events: int  # waiting in one queue
    probe_events: int  # sent and received to see the rate beside that backlog
    unconfirmed_events: int  # in a journal that is opened
    destinations: int
    queues: int  # of a journal that is opened, in which nothing waits
    subscriptions: int  # of one topic of such a journal
    connections: int
    large_bytes: int  # of one event
    large_repetitions: int
    pairs: int  # of longer runs with the same trouble
    spark_batch_events: int
    spark_batches: int  # of one query; the first warms it up
    spark_repetitions: int

    def count(self, of: int) -> int:
        return max(50, round(of * self.share))


FULL = Scale(
    repetitions=5,
    share=1.0,
    rounds=25,
    latency_events=1_000,
    journal_appends=2_000,
    backlog_events=10_000_000,
    probe_events=200_000,
    unconfirmed_events=1_000_000,
    destinations=1_000,
    queues=100_000,
    subscriptions=10_000,
    connections=1_000,
    large_bytes=2 << 30,
    large_repetitions=2,
    pairs=16,
    spark_batch_events=500_000,
    spark_batches=8,
    spark_repetitions=5,
)
QUICK = Scale(
    repetitions=2,
    share=0.1,
    rounds=2,
    latency_events=200,
    journal_appends=100,
    backlog_events=50_000,
    probe_events=10_000,
    unconfirmed_events=20_000,
    destinations=100,
    queues=1_000,
    subscriptions=500,
    connections=50,
    large_bytes=64 << 20,
    large_repetitions=1,
    pairs=2,
    spark_batch_events=20_000,
    spark_batches=2,
    spark_repetitions=1,
)
