"""Archive: every event into a lake table, once, with everything that is known of it.

The table has the columns of the source and is partitioned by day and destination; the lake sink sees to both, and to it that a
batch is in the table as a whole or not at all. Events are confirmed when the table holds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from holdfast.spark.pipelines.running.progress import Reporter
    from holdfast.spark.pipelines.running.registry import ArchiveSettings


def archive(events: DataFrame) -> DataFrame:
    """The rows of the table: the events as they are."""
    return events


def start(spark: SparkSession, settings: ArchiveSettings, reporter: Reporter) -> StreamingQuery:
    from holdfast.spark.pipelines.running.runner import into_table, read_stream

    return into_table(archive(read_stream(spark, settings)), settings, settings.table)
