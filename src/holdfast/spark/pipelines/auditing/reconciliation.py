"""The audit (requirement D4): proves that nothing was lost or archived twice, and names what was.

    receipts   what producers were told is durable                  ─┐
    archive    what lies in the lake table                           │   one row for every event of a destination: how often
    waiting    what the subscription of the archive still holds      ├─▶ it was seen in each of these
    dead       what was given up, and lies in the dead queue         │
    delivered  what recipients wrote down, where there are others   ─┘

    lost        receipted, and seen nowhere else                     duplicated   the same id more than once in the archive
    stranger    seen, and not among the receipts: its producer died before it heard, or the receipts are not all there
    hole        ids of a producer, between the first and the last seen, that were seen nowhere: not sent, or sent elsewhere

Frames in, frames out; every frame has the columns `destination` and `id`, and may have `position` and `accepted_at`. Everything
is grouped once by destination and id, the rest is made from that. What is given may be read in any order and contain anything
twice but the archive: there, twice is what is looked for.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from holdfast.errors import BadSetting
from holdfast.spark.pipelines.auditing.identifiers import counter_of, id_of, producer_of, started_at

# Where an event may be seen. The first of these that has it, from `archived` on, is where it is.
SEEN = ("receipted", "archived", "waiting", "dead", "delivered")
# Counters that are looked at together for holes; one producer's are spread over as many tasks as it takes.
_BUCKET_BITS = 16


class Reconciliation(NamedTuple):
    """The findings. All are made of `events`: keep it (`persist`) before more than one of them is asked for."""

    events: DataFrame  # destination, id, SEEN…, first_position, last_position, accepted_at, producer, counter, state
    producers: DataFrame  # destination, producer, started_at, SEEN…, lost, duplicated, strangers, …_only, first, last
    lost: DataFrame  # destination, producer, first, last, count, first_position, last_position
    duplicates: DataFrame  # destination, id, copies, first_position, last_position, reason
    strangers: DataFrame  # destination, id, state
    holes: DataFrame  # producer, first, last, count


def reconcile(
    *,
    receipts: DataFrame | None = None,
    archive: DataFrame | None = None,
    waiting: DataFrame | None = None,
    dead: DataFrame | None = None,
    delivered: DataFrame | None = None,
) -> Reconciliation:
    """Hold what was receipted against what became of it. Without receipts nothing can be named as lost, but holes can."""
    given = {"receipted": receipts, "archived": archive, "waiting": waiting, "dead": dead, "delivered": delivered}
    events = events_of({name: frame for name, frame in given.items() if frame is not None})
    return of_events(events, has_receipts=receipts is not None)


def of_events(events: DataFrame, *, has_receipts: bool) -> Reconciliation:
    """The findings, from what `events_of` made, or from what was kept of it."""
    is_stranger = (F.col("receipted") == 0) if has_receipts else F.lit(False)
    return Reconciliation(
        events=events,
        producers=_producers(events, is_stranger),
        lost=_ranges(events.where(F.col("state") == "lost")),
        duplicates=_duplicates(events),
        strangers=events.where(is_stranger).select("destination", "id", "state"),
        holes=holes_in(events),
    )


def events_of(seen: dict[str, DataFrame]) -> DataFrame:
    """One row for every event of a destination: how often it was seen where, and what that means."""
    if not seen:
        raise BadSetting("there is nothing to audit; give receipts, an archive, or both", setting="receipts")
    sightings = [_sightings(frame, name) for name, frame in seen.items()]
    together = sightings[0]
    for more in sightings[1:]:
        together = together.unionByName(more)
    counts = [F.sum((F.col("seen") == name).cast("int")).cast("long").alias(name) for name in SEEN]
    placed = F.when(F.col("seen") != "delivered", F.col("position"))
    grouped = together.groupBy("destination", "id").agg(
        *counts,
        F.min(placed).alias("first_position"),
        F.max(placed).alias("last_position"),
        F.min("accepted_at").alias("accepted_at"),
    )
    return grouped.withColumns({"producer": producer_of(F.col("id")), "counter": counter_of(F.col("id")), "state": _state()})


def _sightings(frame: DataFrame, name: str) -> DataFrame:
    missing = [column for column in ("destination", "id") if column not in frame.columns]
    if missing:
        raise BadSetting(f"what was {name} has no column {missing[0]!r}; an audit needs destination and id", setting=name)
    position = F.nullif(_column(frame, "position", "long"), F.lit(0)).alias("position")
    return frame.select("destination", "id", position, _column(frame, "accepted_at", "timestamp"), F.lit(name).alias("seen"))


def _column(frame: DataFrame, name: str, kind: str) -> Column:
    """This column, or nothing where there is none."""
    return (F.col(name) if name in frame.columns else F.lit(None)).cast(kind).alias(name)


def _state() -> Column:
    state = F.lit("lost")
    for name in reversed(SEEN[1:]):
        state = F.when(F.col(name) > 0, F.lit(name)).otherwise(state)
    return state


def _producers(events: DataFrame, is_stranger: Column) -> DataFrame:
    counts = [F.sum((F.col(name) > 0).cast("long")).alias(name) for name in SEEN]
    summed = {"lost": F.col("state") == "lost", "duplicated": F.col("archived") > 1, "strangers": is_stranger}
    summed |= {f"{name}_only": F.col("state") == name for name in SEEN[2:]}
    counts += [F.sum(condition.cast("long")).alias(name) for name, condition in summed.items()]
    ends = (F.min("id").alias("first"), F.max("id").alias("last"))
    found = events.groupBy("destination", "producer").agg(started_at(F.col("producer")).alias("started_at"), *counts, *ends)
    return found.orderBy("destination", "producer")


def _ranges(events: DataFrame) -> DataFrame:
    """Events whose counters follow each other as one row; foreign ids one by one."""
    ordered = Window.partitionBy("destination", "producer").orderBy("counter")
    run = F.when(F.col("producer").isNull(), F.col("id")).otherwise(
        (F.col("counter") - F.row_number().over(ordered)).cast("string")
    )
    found = (
        events.withColumn("run", run)
        .groupBy("destination", "producer", "run")
        .agg(
            F.min("id").alias("first"),
            F.max("id").alias("last"),
            F.count("*").alias("count"),
            F.min("first_position").alias("first_position"),
            F.max("last_position").alias("last_position"),
        )
    )
    return found.drop("run").orderBy("destination", "first")


def _duplicates(events: DataFrame) -> DataFrame:
    """At one position: written to the table twice. At several: accepted twice, because it was sent twice under one id."""
    is_same = F.coalesce(F.col("first_position") == F.col("last_position"), F.lit(False))
    reason = F.when(is_same, F.lit("archived twice")).otherwise(F.lit("accepted twice"))
    return (
        events.where(F.col("archived") > 1)
        .select("destination", "id", F.col("archived").alias("copies"), "first_position", "last_position", reason.alias("reason"))
        .orderBy("destination", "id")
    )


def holes_in(events: DataFrame) -> DataFrame:
    """Ranges of ids between the first and the last of each producer that were seen nowhere.

    Counters are looked at in buckets. Most are whole, which their least, greatest and number tell; only in the others, and
    between one bucket and the next, are there neighbours to be compared.
    """
    counters = events.where(F.col("producer").isNotNull()).select("producer", "counter").distinct()
    counters = counters.withColumn("bucket", F.shiftright("counter", _BUCKET_BITS))
    buckets = counters.groupBy("producer", "bucket").agg(
        F.min("counter").alias("low"), F.max("counter").alias("high"), F.count("*").alias("number")
    )
    torn = buckets.where(F.col("number") <= F.col("high") - F.col("low")).select("producer", "bucket")
    within = Window.partitionBy("producer", "bucket").orderBy("counter")
    inside = counters.join(torn, ["producer", "bucket"], "left_semi").select(
        "producer", F.col("counter").alias("before"), F.lead("counter").over(within).alias("after")
    )
    next_one = Window.partitionBy("producer").orderBy("bucket")
    between = buckets.select("producer", F.col("high").alias("before"), F.lead("low").over(next_one).alias("after"))
    found = inside.unionByName(between).where(F.col("after") > F.col("before") + 1)
    producer = F.col("producer")
    return found.select(
        producer,
        id_of(producer, F.col("before") + 1).alias("first"),
        id_of(producer, F.col("after") - 1).alias("last"),
        (F.col("after") - F.col("before") - 1).alias("count"),
    ).orderBy("producer", "first")
