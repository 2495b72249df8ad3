"""Measure m: Spark reads. The stream source, into nothing and into parquet, beside a source whose Arrow batches are ready-made;
and the server's memory while Spark reads a long backlog.

Source, server and Spark share the machine: what the yardstick leaves idle, the source and its server may use.
"""

from __future__ import annotations

import threading

from tests.bench.peers.holdfast import Server
from tests.bench.results import Target, in_turns, ratios
from tests.bench.spark_runs import PIECES, Bench, bench, filled_topic, rows_of, stream_of
from tests.bench.workshop import Workshop

OURS = "Holdfast source"
YARDSTICK = "ready-made Arrow"
SINKS = {"noop": ("into noop", 0.6), "parquet": ("into snappy parquet", 0.8)}
# What the server may grow by while all of the backlog is read: buffers of what is under way, whatever waits.
GROWTH_MB_MAX = 64.0
LOOK_SECONDS = 0.1


def measure(workshop: Workshop) -> None:
    with bench(workshop) as made:
        _rates(made)
        _memory(made)


def _rates(made: Bench) -> None:
    workshop, turns = made.workshop, made.workshop.scale.spark_repetitions
    names = [f"{sink}-{turn}" for sink in SINKS for turn in range(turns)]
    with filled_topic(workshop, made.events, [*names, "looked-at"]) as server:
        rows = rows_of(made, server, "looked-at", made.batch_events // PIECES)
        for sink, (what, share_min) in SINKS.items():
            unread = iter([name for name in names if name.startswith(sink)])
            workshop.tell(f"Spark: {what}")
            samples = in_turns(
                turns,
                {
                    YARDSTICK: lambda sink=sink: made.rate(made.ready_made(rows), sink),  # type: ignore[misc]
                    OURS: lambda sink=sink, unread=unread: made.rate(stream_of(made, server, next(unread)), sink),  # type: ignore[misc]
                },
            )
            workshop.results.note("m", what, "rows/s", samples)
            found = ratios(samples[OURS], samples[YARDSTICK])
            workshop.results.find("m", f"{what}: {OURS} / {YARDSTICK}", found, Target(at_least=share_min))


def _memory(made: Bench) -> None:
    """All of the backlog in one go, batch by batch; the most that the server ever took beyond what it had before."""
    workshop, events = made.workshop, made.workshop.scale.backlog_events
    with filled_topic(workshop, events, ["all"]) as server:
        workshop.tell(f"Spark reads {events:,} waiting events")
        before = server.memory_bytes
        long = Bench(made.spark, workshop, workshop.folder("long"), events // 10, 10)
        watch = Watch(server)
        with watch:
            rate = long.rate(stream_of(long, server, "all"), "noop")
    name = f"{events:,} waiting events read"
    workshop.results.note("m", name, "rows/s", {OURS: [rate]})
    grown = (watch.peak_bytes - before) / 1e6
    memory = {"before": [before / 1e6], "at most, while read": [watch.peak_bytes / 1e6]}
    workshop.results.note("m", "memory of the server", "MB", memory)
    workshop.results.find("m", f"the server's growth while {name}", [grown], Target(at_most=GROWTH_MB_MAX), "MB")


class Watch:
    """The most memory that a server has while this is entered."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.peak_bytes = 0

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(LOOK_SECONDS):
            self.peak_bytes = max(self.peak_bytes, self._server.memory_bytes)
