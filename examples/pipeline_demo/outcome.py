"""The outcome of the demo, as plain values: the audit's report, what the tables hold second by second, and the alerts.

Written by the Spark driver, read by the demo, which has no Spark in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from examples.pipeline_demo import places
from holdfast.spark.pipelines.auditing.settings import AuditSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Told(NamedTuple):
    """One batch of a pipeline."""

    pipeline: str
    at: str
    rows: int
    rows_per_second: float
    lag: int | None
    seconds: float


class Second(NamedTuple):
    """Events of a destination that were accepted in this second, by the table."""

    at: int
    destination: str
    events: int


class WindowRow(NamedTuple):
    """A row of the statistics, beside what the archive holds of the same window, destination and type."""

    at: float
    events: int
    archived: int
    confirm_ms: float


class Alert(NamedTuple):
    at: float
    rule: str
    id: str


class Outcome(msgspec.Struct):
    report: dict[str, Any]
    seconds: list[Second]
    windows: list[WindowRow]
    alerts: list[Alert]

    @property
    def wrong_windows(self) -> int:
        return sum(each.events != each.archived for each in self.windows)

    @property
    def repeated_alerts(self) -> int:
        return len(self.alerts) - len({each.id for each in self.alerts})

    @property
    def is_whole(self) -> bool:
        return bool(self.report["is_whole"]) and not self.wrong_windows and not self.repeated_alerts


def outcome_of(spark: SparkSession, url: str, folder: Path) -> Outcome:
    from holdfast.spark.pipelines.audit import audit

    receipts = [str(file) for file in places.receipts(folder).values()]
    asked = AuditSettings(
        url=url, destinations=places.TOPICS, subscription="archive", table=str(folder / places.ARCHIVE), receipts=receipts
    )
    archived = spark.read.format("holdfast_lake").load(str(folder / places.ARCHIVE)).persist()
    return Outcome(
        report=audit(spark, asked).to_json(),
        seconds=_seconds(archived),
        windows=_windows(archived, spark.read.format("holdfast_lake").load(str(folder / places.STATISTICS))),
        alerts=_alerts(spark, url),
    )


def _seconds(archived: DataFrame) -> list[Second]:
    counted = archived.selectExpr("unix_seconds(accepted_at) AS at", "destination").groupBy("at", "destination").count()
    return [Second(*row) for row in counted.orderBy("at", "destination").collect()]


def _windows(archived: DataFrame, statistics: DataFrame) -> list[WindowRow]:
    from pyspark.sql import functions as F

    span = F.window("accepted_at", "2 seconds")["start"].alias("window_start")
    counted = archived.groupBy(span, "destination", "type").agg(F.count("*").alias("archived"))
    both = statistics.join(counted, ["window_start", "destination", "type"], "left")
    told = both.select(F.unix_millis("window_start") / 1000, "events", F.coalesce("archived", F.lit(0)), "confirm_ms_p95")
    return [WindowRow(*row) for row in sorted(told.collect())]


def _alerts(spark: SparkSession, url: str) -> list[Alert]:
    """The alerts that wait, looked at and not taken."""
    options = {"url": url, "destinations": places.ALERTS, "subscription": places.DUTY, "columns": "time,subject,id"}
    rows = spark.read.format("holdfast").options(**options).load().selectExpr("unix_millis(time) / 1000", "subject", "id")
    return [Alert(*row) for row in rows.collect()]
