"""Statistics (D4) on a few events with a known answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast.spark.pipelines.statistics import statistics
from tests.spark.pipeline_events import COLUMNS, at, event, frame, rows

pytestmark = pytest.mark.spark


def test_events_are_counted_weighed_and_timed_for_each_window_destination_and_type(spark: SparkSession) -> None:
    """D4: a hundred events a millisecond apart in latency, and one each in another window, destination and type."""
    hundred = [event(n / 10, size=n, accepted_at=at(n / 10 + n / 1000)) for n in range(1, 101)]
    others = [event(61), event(1, destination="prices"), event(1, type="order.paid")]

    found = rows(statistics(frame(spark, hundred + others), 60, taken_at=F.lit(at(100))))

    counted = {(row["window_start"], row["destination"], row["type"]): row["events"] for row in found}
    assert counted == {
        (at(0), "orders", "order.placed"): 100,
        (at(60), "orders", "order.placed"): 1,
        (at(0), "prices", "order.placed"): 1,
        (at(0), "orders", "order.paid"): 1,
    }
    [row] = [row for row in found if row["events"] == 100]
    assert (row["window_end"], row["bytes"], row["size_avg"], row["size_max"]) == (at(60), 5050, 50.5, 100)
    assert (row["events_per_second"], row["bytes_per_second"]) == (100 / 60, 5050 / 60)
    assert [row[f"accept_ms_{name}"] for name in ("p50", "p95", "p99", "max")] == [50, 95, 99, 100]
    assert row["confirm_ms_max"] == pytest.approx((100 - 0.101) * 1000)


def test_windows_that_slide_count_an_event_in_each_they_have_it_in(spark: SparkSession) -> None:
    found = rows(statistics(frame(spark, [event(25)]), 20, 10, by="time"))

    assert sorted((row["window_start"], row["window_end"]) for row in found) == [(at(10), at(30)), (at(20), at(40))]


def test_an_event_of_which_no_server_said_when_it_was_accepted_counts_by_its_own_time(spark: SparkSession) -> None:
    [row] = rows(statistics(frame(spark, [event(5, accepted_at=None)]), 60))

    assert (row["window_start"], row["events"], row["accept_ms_max"], row["confirm_ms_max"]) == (at(0), 1, None, None)


def test_a_stream_writes_each_window_once_when_it_is_over(spark: SparkSession, tmp_path: Path) -> None:
    """The same function on a stream: the window that may still grow is not written yet, a late event is not counted."""
    source = tmp_path / "in"
    for number, events in enumerate([[event(1), event(2), event(70)], [event(400)], [event(3)]]):
        frame(spark, events).coalesce(1).write.parquet(f"{source}/batch={number}")
    stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).option("latestFirst", "false")
    counted = statistics(stream.parquet(f"{source}/*"), 60, lateness_seconds=10)

    query = counted.writeStream.format("memory").queryName("counted").outputMode("append").trigger(availableNow=True).start()
    query.awaitTermination()

    found = rows(spark.table("counted").select("window_start", "events"))
    assert sorted((row["window_start"], row["events"]) for row in found) == [(at(0), 2), (at(60), 1)]
