"""Replay: what a lake table holds is sent to a destination again, each event once and with the id it had.

    table ─▶ time range, destinations, selector, where ─▶ chunks, by position ─▶ destination

Exactly once across restarts: the checkpoint holds a plan (`replaying`) with a scope of its own, and each chunk is published under
its number, which the server takes once. An event that is in the table several times, because it was replayed before into what is
archived, is sent once: by its id and source, the one with the lowest position. A finished replay stays finished; to do it again,
give another checkpoint.

A server that evaluates selectors is not in between: a selector is translated (`selecting`). Properties are sent as the table has
them, as texts. What had a time to live has none now: it would be over.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import uuid4

import msgspec
from pyspark.sql import Observation
from pyspark.sql import functions as F

from holdfast.errors import BadSetting
from holdfast.event.pattern import Pattern
from holdfast.spark.pipelines.replay_chunks import Plan, TableFile, chunk_starts
from holdfast.spark.pipelines.running.notes import Notes, notes_in
from holdfast.spark.pipelines.running.progress import Progress
from holdfast.spark.pipelines.running.registry import moment
from holdfast.spark.pipelines.selector_condition import spark_sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from holdfast.spark.pipelines.running.progress import Reporter
    from holdfast.spark.pipelines.running.registry import ReplaySettings
    from holdfast.spark.pipelines.running.runner import Stop

PLAN, DONE = "plan", "done"
KEY = ("source", "id")


def replay(
    archived: DataFrame,
    since: datetime | None = None,
    until: datetime | None = None,
    by: str = "accepted_at",
    destinations: Iterable[str] = (),
    selector: str = "",
    where: str = "",
) -> DataFrame:
    """The rows of the archive that are asked for: from `since`, before `until`, of destinations that are named or matched."""
    asked = list(destinations)
    conditions = [
        *([F.col(by) >= F.lit(since)] if since else []),
        *([F.col(by) < F.lit(until)] if until else []),
        *([_is_of(asked, archived)] if asked else []),
        *([F.expr(spark_sql(selector))] if selector else []),
        *([F.expr(where)] if where else []),
    ]
    return reduce(lambda frame, condition: frame.where(condition), conditions, archived)


def meant(asked: Iterable[str], names: Iterable[str]) -> list[str]:
    """Choose the names that are asked for, by name or by wildcard, matched as the server matches them."""
    patterns = [Pattern.glob(each) for each in asked]
    return sorted(name for name in names if any(pattern.matches(name) for pattern in patterns))


def _is_of(asked: Sequence[str], archived: DataFrame) -> Column:
    """Whether a row is of the destinations asked for. Wildcards are matched in Python, for each name that occurs."""
    names = list(asked)
    if not all(Pattern.glob(each).is_literal for each in asked):
        names = meant(asked, (row[0] for row in archived.select("destination").distinct().collect()))
    return F.col("destination").isin(names) if names else F.lit(False)


def repeated(archived: DataFrame) -> DataFrame:
    """The events that are there more than once: source, id, and the position of the one that counts."""
    counted = archived.groupBy(*KEY).agg(F.count("*").alias("times"), F.min("position").alias("kept"))
    return counted.where("times > 1").select(*KEY, "kept")


def without_repeated(archived: DataFrame, repetitions: DataFrame) -> DataFrame:
    """Each event once: of those repeated, the one that counts."""
    joined = archived.join(F.broadcast(repetitions), list(KEY), "left")
    return joined.where("kept IS NULL OR kept = position").drop("kept")


def run(spark: SparkSession, settings: ReplaySettings, reporter: Reporter, stop: Stop) -> None:
    """Chunk by chunk, until all are published or the replay is told to stop."""
    notes = notes_in(settings.checkpoint)
    plan = planned(notes, settings)
    table = Archive(spark, settings, plan)
    first = notes.read(DONE) or 0
    for number in range(first, len(plan.starts)):
        if stop.is_asked:
            reporter.finish("stopped when told to", chunks=number, of=len(plan.starts))
            return
        reporter.tell(table.publish(number))
        notes.write(DONE, number + 1)
    told = "nothing was left to replay" if first == len(plan.starts) else "replayed all there was"
    reporter.finish(told, chunks=len(plan.starts), of=len(plan.starts))


def planned(notes: Notes, settings: ReplaySettings) -> Plan:
    """The plan of this checkpoint; made, and kept, if it has none. BadSetting if it is the plan of another replay."""
    said = {name: str(value) for name, value in msgspec.structs.asdict(settings).items() if name not in _NOT_PLANNED}
    kept = notes.read(PLAN)
    if kept is None:
        files = files_of(settings.table)
        plan = Plan(f"replay-{uuid4()}", said, files, chunk_starts(files, settings.chunk_events))
        notes.write(PLAN, plan)
        return plan
    plan = msgspec.convert(kept, Plan)
    other = sorted(name for name in said.keys() | plan.settings.keys() if said.get(name) != plan.settings.get(name))
    if other:
        raise BadSetting(
            f"checkpoint {settings.checkpoint} is of a replay with another {' and '.join(other)}; give a checkpoint of its own",
            setting=other[0],
        )
    return plan


# Settings that may differ when a replay is started again: where Spark runs, and the address of the server.
_NOT_PLANNED = ("url", "timeout", "spark_master", "remote", "checkpoint", "spark")


def files_of(table: str) -> list[TableFile]:
    """The files of the table's newest version that hold anything."""
    import pyarrow as pa

    from holdfast.spark.lake.table import Lake, local_folder

    actions = pa.table(Lake(local_folder(table)).table().get_add_actions(flatten=True)).to_pylist()
    return [_file(table, action) for action in actions if action["num_records"]]


def _file(table: str, action: dict[str, Any]) -> TableFile:
    first, last = action.get("min.position"), action.get("max.position")
    if first is None or last is None or action.get("partition.destination") is None:
        raise BadSetting(f"{table} is not a table that `holdfast pipeline archive` wrote: it lacks positions or destinations")
    path = unquote(action["path"])  # written as in a URL
    return TableFile(path, action["partition.destination"], first, last, action["num_records"])


class Archive:
    """The table as a plan has it, published chunk by chunk."""

    def __init__(self, spark: SparkSession, settings: ReplaySettings, plan: Plan) -> None:
        self._spark = spark
        self._settings = settings
        self._plan = plan
        asked = settings.destination_names
        # Match the names in the plan. A pattern that matches none of them is kept, and matches no row either.
        self._destinations = meant(asked, {file.destination for file in plan.files}) or asked

    def publish(self, number: int) -> Progress:
        """Send a chunk, unless the server has it already."""
        began, counted = time.monotonic(), Observation()
        # One task: a chunk is small, and is sent in the order of its positions.
        rows = self.chunk(number).coalesce(1).sortWithinPartitions("position")
        self._send(rows.observe(counted, F.count("*").alias("events")), number)
        events, took = counted.get["events"], time.monotonic() - began
        return Progress(number, datetime.now(UTC).isoformat(timespec="seconds"), events, events / took, took, None, 0, {})

    def chunk(self, number: int) -> DataFrame:
        start, end = self._plan.chunk(number)
        rows = self._read(self._plan.files_of(number)).where(F.col("position") >= start)
        asked = self._asked(rows if end is None else rows.where(F.col("position") < end))
        return asked if self._repetitions is None else without_repeated(asked, self._repetitions)

    def _send(self, rows: DataFrame, number: int) -> None:
        options = {
            "url": self._settings.url,
            "timeout": f"{self._settings.timeout:g}",
            "kind": self._settings.kind,
            "scope": self._plan.scope,
            "number": str(number),
        }
        if self._settings.to:
            rows, options = rows.drop("destination"), {**options, "destination": self._settings.to}
        rows.drop("expires_at").write.format("holdfast").options(**options).mode("append").save()

    @cached_property
    def _repetitions(self) -> DataFrame | None:
        """None when every event is there once, as it is in a table that nothing was replayed into."""
        found = repeated(self._asked(self._read(self._plan.files))).persist()
        return found if found.take(1) else None

    def _asked(self, rows: DataFrame) -> DataFrame:
        asked = self._settings
        since, until = moment(asked.since, "since"), moment(asked.until, "until")
        return replay(rows, since, until, asked.by, self._destinations, asked.selector, asked.where)

    def _read(self, files: list[TableFile]) -> DataFrame:
        """The files, with the destination that each is of: it is not in them."""
        from holdfast.spark.lake.source import schema_of
        from holdfast.spark.lake.table import local_folder

        folder = local_folder(self._settings.table)
        kept = [field for field in schema_of(folder) if field.name not in ("date", "destination")]
        schema = type(schema_of(folder))(kept)
        names = sorted({file.destination for file in files})
        frames = [
            self._spark.read.schema(schema)
            .parquet(*(f"{folder}/{file.path}" for file in files if file.destination == name))
            .withColumn("destination", F.lit(name))
            for name in names
        ]
        return reduce(lambda one, other: one.unionByName(other), frames)
