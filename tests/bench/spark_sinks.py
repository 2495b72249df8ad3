"""Measure n: Spark writes. The lake sink beside Spark's own parquet sink, and the Holdfast sink beside the client's pipeline.

The rows are the same for all of them and ready-made, so that what is compared is writing.
"""

from __future__ import annotations

from tests.bench.peers.holdfast import Server
from tests.bench.results import Target, in_turns, ratios
from tests.bench.spark_runs import PIECES, Bench, bench, filled_topic, rows_of
from tests.bench.workshop import EVENT_BYTES, Workshop, seconds

PARQUET, LAKE = "Spark's parquet sink", "lake sink"
CLIENT, SINK = "client, pipelined", "Holdfast sink"
TABLES = "rows into a table"
EVENTS = "rows into events"
LAKE_TIMES_MAX = 1.5
# Of the client's own rate; and no more is asked for than this, whatever the client does.
SINK_SHARE = 0.6
SINK_EVENTS_MAX = 200_000


def measure(workshop: Workshop) -> None:
    with bench(workshop) as made, filled_topic(workshop, made.batch_events // PIECES, ["looked-at"]) as server:
        rows = rows_of(made, server, "looked-at", made.batch_events // PIECES)
        _tables(made, rows)
        _events(made, rows, server)


def _tables(made: Bench, rows: object) -> None:
    made.workshop.tell("Spark: rows into tables")
    samples = in_turns(
        made.workshop.scale.spark_repetitions,
        {
            PARQUET: lambda: made.rate(made.ready_made(rows), "parquet"),
            LAKE: lambda: made.rate(made.ready_made(rows), "holdfast_lake"),
        },
    )
    made.workshop.results.note("n", TABLES, "rows/s", samples)
    found = ratios(samples[PARQUET], samples[LAKE])
    made.workshop.results.find("n", f"{TABLES}: time of {LAKE} / {PARQUET}", found, Target(at_most=LAKE_TIMES_MAX))


def _events(made: Bench, rows: object, server: Server) -> None:
    made.workshop.tell("Spark: rows into events")
    client, count = server.connect(), made.batch_events
    frame = made.ready_made(rows).select("type", "source", "data")
    samples = in_turns(
        made.workshop.scale.spark_repetitions,
        {
            CLIENT: lambda: count / seconds(lambda: client.send_pipelined(bytes(EVENT_BYTES), count)),
            SINK: lambda: made.rate(frame, "holdfast", url=server.url, destination="from-spark"),
        },
    )
    client.close()
    made.workshop.results.note("n", EVENTS, "events/s", samples)
    wanted = [min(SINK_EVENTS_MAX, SINK_SHARE * rate) for rate in samples[CLIENT]]
    what = f"{EVENTS}: {SINK} / the lower of {SINK_EVENTS_MAX:,} a second and {SINK_SHARE:.0%} of the client's"
    made.workshop.results.find("n", what, ratios(samples[SINK], wanted), Target(at_least=1))
