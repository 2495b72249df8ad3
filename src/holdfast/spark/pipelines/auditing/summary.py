"""From the frames of a reconciliation to its report: what is counted is counted by Spark, what is named is as much as is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.spark.pipelines.auditing.reconciliation import Reconciliation
from holdfast.spark.pipelines.auditing.report import (
    COUNTS,
    COUNTS_ONLY,
    NAMED_MAX,
    Account,
    Counted,
    Duplicate,
    Hole,
    LostRange,
    Moment,
    Produced,
    Report,
    Stranger,
)

# Steps of the timeline: about as many as can be told apart on a page.
STEPS = 96

Named = TypeVar("Named", bound=msgspec.Struct)


def summarise(
    found: Reconciliation,
    *,
    has_receipts: bool,
    has_archive: bool,
    subject: Mapping[str, str],
    account: Sequence[Account] = (),
    unread_lines: int = 0,
) -> Report:
    """Keep `found.events` before (`persist`): it is gone through several times. What cannot be there is not looked for."""
    summed = found.producers.groupBy("destination").agg(*(F.sum(name).alias(name) for name in (*COUNTS, *COUNTS_ONLY)))
    destinations = _converted(Counted, summed.orderBy("destination"))
    has = {name: any(getattr(each, name) for each in destinations) for name in ("lost", "duplicated", "strangers")}
    holes = found.holes.persist()
    try:
        report = Report(
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            subject=dict(subject),
            has_receipts=has_receipts,
            has_archive=has_archive,
            destinations=destinations,
            producers=_produced(found.producers),
            lost_ranges=_named(LostRange, found.lost) if has["lost"] else [],
            duplicates=_named(Duplicate, found.duplicates) if has["duplicated"] else [],
            strangers=_named(Stranger, found.strangers.orderBy("destination", "id")) if has["strangers"] else [],
            holes=_named(Hole, holes),
            hole_ids=_one(holes.agg(F.coalesce(F.sum("count"), F.lit(0)))),
            unread_lines=unread_lines,
            account=list(account),
            timeline=_timeline(found.events),
        )
    finally:
        holes.unpersist()
    return _settled(report)


def _settled(report: Report) -> Report:
    """Count events that recipients of a queue confirmed as not lost, though nobody wrote down which they were."""
    confirmed = {each.destination: each.confirmed for each in report.account if not each.subscription}
    destinations = [
        each.settled(confirmed.get(each.destination, 0)) if not each.delivered else each for each in report.destinations
    ]
    unclear = {each.destination for each in destinations if each.confirmed and not each.lost}
    return msgspec.structs.replace(
        report,
        destinations=destinations,
        producers=[each.settled(each.lost) if each.destination in unclear else each for each in report.producers],
        lost_ranges=[each for each in report.lost_ranges if each.destination not in unclear],
    )


def _produced(producers: DataFrame) -> list[Produced]:
    """Sort destinations with something wrong first."""
    wrong = F.col("lost") + F.col("duplicated")
    told = producers.withColumn("started_at", F.unix_millis("started_at")).orderBy(wrong.desc(), "destination", "producer")
    rows = [row.asDict() for row in told.limit(NAMED_MAX).collect()]
    for row in rows:
        row["started_at"] = None if row["started_at"] is None else _moment(row["started_at"])
    return [msgspec.convert(row, Produced) for row in rows]


def _named(kind: type[Named], frame: DataFrame) -> list[Named]:
    return _converted(kind, frame.limit(NAMED_MAX))


def _converted(kind: type[Named], frame: DataFrame) -> list[Named]:
    return [msgspec.convert(row.asDict(), kind) for row in frame.collect()]


def _timeline(events: DataFrame) -> list[Moment]:
    known = events.where(F.col("accepted_at").isNotNull()).select(F.unix_millis("accepted_at").alias("at_ms"), "state")
    first_ms, last_ms = known.agg(F.min("at_ms"), F.max("at_ms")).collect()[0]
    if first_ms is None:
        return []
    step_ms = (last_ms - first_ms) // STEPS + 1
    step = F.floor((F.col("at_ms") - first_ms) / step_ms)
    rows = known.groupBy(step.alias("step"), "state").count().orderBy("step", "state").collect()
    return [Moment(at=_moment(first_ms + row["step"] * step_ms), state=row["state"], events=row["count"]) for row in rows]


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _one(frame: DataFrame) -> Any:
    return frame.collect()[0][0]
