"""Statistics: how many events, how large, and how long they took, for each window, destination and type.

    recognised ───────────▶ accepted ───────────▶ taken ──────▶ (table written, confirmed)
      `time`    accept_ms   `accepted_at`  confirm_ms   the batch's time

`accept_ms` is from the event's own time to the server's stamp: two clocks, so it may be negative where they differ. `confirm_ms`
is from that stamp to the time of the micro-batch that took the event, which is what Spark knows: the confirm itself follows as
soon as that batch is committed. Both are in milliseconds with their fractions. Percentiles are values that occurred, exact for up
to 10,000 different ones in a group and within a ten-thousandth of the rank above.

A window is of `accepted_at` unless told otherwise. That time hardly goes back, so little is ever late; where several destinations
are read and one of them is far behind, `lateness` has to cover it. An event that comes after its window was written is not
counted in the table; the progress says how many those were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.spark.pipelines.running.settings import seconds

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from holdfast.spark.pipelines.running.progress import Reporter
    from holdfast.spark.pipelines.running.registry import StatisticsSettings

PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
KEYS = ("window_start", "window_end", "destination", "type")


def statistics(
    events: DataFrame,
    window_seconds: float,
    slide_seconds: float | None = None,
    by: str = "accepted_at",
    lateness_seconds: float = 60.0,
    taken_at: Column | None = None,
) -> DataFrame:
    """One row for each window, destination and type. `taken_at` is when the batch took them; the batch's time if left out."""
    taken = F.current_timestamp() if taken_at is None else taken_at
    timed = events.select(
        "destination",
        "type",
        "size",
        F.coalesce(F.col(by), F.col("time")).alias("moment"),
        _milliseconds("time", F.col("accepted_at")).alias("accept_ms"),
        _milliseconds("accepted_at", taken).alias("confirm_ms"),
    )
    span = F.window("moment", period(window_seconds), period(slide_seconds or window_seconds))
    watched = timed.withWatermark("moment", period(lateness_seconds))
    grouped = watched.groupBy(span.alias("span"), "destination", "type").agg(*_measures(window_seconds))
    return grouped.select(
        F.col("span.start").alias("window_start"),
        F.col("span.end").alias("window_end"),
        "destination",
        "type",
        "events",
        "events_per_second",
        "bytes",
        "bytes_per_second",
        *(column for name in ("size", "accept_ms", "confirm_ms") for column in _spread(name)),
    )


def period(length_seconds: float) -> str:
    """A length of time as Spark writes it."""
    return f"{round(length_seconds * 1_000_000)} microseconds"


def start(spark: SparkSession, settings: StatisticsSettings, reporter: Reporter) -> StreamingQuery:
    from holdfast.spark.pipelines.running.runner import into_table, into_terminal, read_stream

    counted = statistics(
        read_stream(spark, settings),
        seconds(settings.window, "window"),
        seconds(settings.slide or settings.window, "slide"),
        settings.by,
        seconds(settings.lateness, "lateness"),
    )
    if settings.table:
        return into_table(counted, settings, settings.table, day_of="window_start")
    return into_terminal(counted, settings, KEYS, "update", reporter)


def _milliseconds(begin: str, end: Column) -> Column:
    return (F.unix_micros(end) - F.unix_micros(F.col(begin))) / 1000.0


def _measures(window_seconds: float) -> list[Column]:
    counts = [
        F.count("*").alias("events"),
        (F.count("*") / window_seconds).alias("events_per_second"),
        F.sum("size").alias("bytes"),
        (F.sum("size") / window_seconds).alias("bytes_per_second"),
    ]
    return [*counts, *(measure for name in ("size", "accept_ms", "confirm_ms") for measure in _spread_measures(name))]


def _spread_measures(name: str) -> list[Column]:
    shares = F.array(*(F.lit(share) for share in PERCENTILES.values()))
    return [
        F.avg(name).alias(f"{name}_avg"),
        F.max(name).alias(f"{name}_max"),
        F.percentile_approx(name, shares, 10_000).alias(f"{name}_shares"),
    ]


def _spread(name: str) -> list[Column]:
    shares = [F.col(f"{name}_shares")[place].alias(f"{name}_{share}") for place, share in enumerate(PERCENTILES)]
    return [F.col(f"{name}_avg"), *shares, F.col(f"{name}_max")]
