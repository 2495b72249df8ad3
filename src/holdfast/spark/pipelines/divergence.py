"""Divergence: replicated servers answer the same transactions; this finds those in which they do not agree.

An answer is an event that says who answered which transaction, and what:

    type         answer (or what `--type` says)
    properties   transaction   the number of the transaction
                 server        who answered
                 digest        of the answer; left out: SHA-256 of the data
                 domain        where the number counts, if there are several; left out: the destination
    data         the answer itself, or nothing when a digest is given

Answers of one domain and transaction belong together while each comes within `patience` of the one before. Then the transaction
is judged, and a row written if anything is wrong with it:

    differs      not all digests are the same
    missing      a server of `--servers` has not answered
    twice        a server answered more than once
    unexpected   a server answered that is not among `--servers`, or an answer does not say whose it is ("?")

`agreed` is the digest that more servers gave than any other, if there is one, and `dissenting` are the servers that gave another.
An answer that comes later than `patience` is judged by itself, and then others are missing in it: nothing late is lost.

Engines of a domain compare by themselves, and tell each disagreement in one event of the topic `domain.NAME.disagreements`
(`holdfast.continuity.engine.disagreements`). With the type DISAGREEMENT those are read: each is a row at once, without patience.
Missing are servers that the engine has named as late, silent or lost, beside those of `--servers`, which may be left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.continuity.request import DISAGREEMENT
from holdfast.spark.pipelines.running.settings import seconds
from holdfast.spark.pipelines.statistics import period

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from holdfast.spark.pipelines.running.progress import Reporter
    from holdfast.spark.pipelines.running.registry import DivergenceSettings

KEYS = ("domain", "transaction", "problems")
UNSAID = "?"
TOLD = "transaction string, digests map<string,string>, kinds map<string,string>"


def divergence(
    events: DataFrame,
    servers: Sequence[str],
    patience_seconds: float = 30.0,
    lateness_seconds: float = 10.0,
    type: str = "answer",
) -> DataFrame:
    """One row for each transaction with which something is wrong."""
    if type == DISAGREEMENT:
        return judged(disagreements(events), servers)
    watched = answers(events, type).withWatermark("time", period(lateness_seconds))
    span = F.session_window("time", period(patience_seconds))
    gathered = watched.groupBy(span.alias("span"), "domain", "transaction").agg(
        F.collect_list(F.struct("server", "digest")).alias("answers"),
        F.min("time").alias("first_at"),
        F.max("time").alias("last_at"),
    )
    return judged(gathered.withColumn("named", F.array().cast("array<string>")), servers)


def answers(events: DataFrame, type: str) -> DataFrame:
    """The answers among the events: domain, transaction, server, digest, time."""
    return events.where(F.col("type") == type).select(
        F.coalesce(F.col("properties")["domain"], F.col("destination")).alias("domain"),
        F.coalesce(F.col("properties")["transaction"], F.lit(UNSAID)).alias("transaction"),
        F.coalesce(F.col("properties")["server"], F.lit(UNSAID)).alias("server"),
        F.coalesce(F.col("properties")["digest"], F.sha2(F.col("data").cast("binary"), 256)).alias("digest"),
        "time",
    )


def disagreements(events: DataFrame) -> DataFrame:
    """What engines tell: domain, transaction, answers, the servers that were named, times."""
    told = F.from_json(F.col("data").cast("string"), TOLD)
    unsaid = F.array(F.struct(F.lit(UNSAID).alias("server"), F.lit(UNSAID).alias("digest")))
    answer = F.transform(
        F.map_entries("told.digests"), lambda each: F.struct(each["key"].alias("server"), each["value"].alias("digest"))
    )
    return (
        events.where(F.col("type") == DISAGREEMENT)
        .withColumn("told", told)
        .select(
            F.coalesce(F.col("properties")["domain"], F.col("destination")).alias("domain"),
            F.coalesce("told.transaction", F.lit(UNSAID)).alias("transaction"),
            F.coalesce(answer, unsaid).alias("answers"),
            F.coalesce(F.map_keys("told.kinds"), F.array().cast("array<string>")).alias("named"),
            F.col("time").alias("first_at"),
            F.col("time").alias("last_at"),
        )
    )


def judged(gathered: DataFrame, servers: Sequence[str]) -> DataFrame:
    """Name the disagreement of each transaction and the servers concerned; transactions that agree are left out."""
    expected = F.array(*map(F.lit, servers)).cast("array<string>")
    answered = F.array_sort(F.array_distinct("answers.server"))
    found = (
        gathered.withColumn("answered", answered)
        .withColumn("missing", F.array_except(F.array_union(expected, "named"), "answered"))
        .withColumn("unexpected", F.array_except("answered", expected) if servers else F.filter("answered", _is_unsaid))
        .withColumn("twice", F.filter("answered", lambda server: F.size(_answers_of(server)) > 1))
        .withColumn("agreed", _agreed())
        .withColumn("dissenting", _dissenting())
        .withColumn("problems", _problems())
    )
    return found.where(F.size("problems") > 0).select(
        "domain",
        "transaction",
        "problems",
        "agreed",
        "dissenting",
        "missing",
        "twice",
        "unexpected",
        F.array_sort("answers").alias("answers"),
        "first_at",
        "last_at",
    )


def start(spark: SparkSession, settings: DivergenceSettings, reporter: Reporter) -> StreamingQuery:
    from holdfast.spark.pipelines.running.runner import into_table, into_terminal, read_stream

    found = divergence(
        read_stream(spark, settings),
        settings.server_names,
        seconds(settings.patience, "patience"),
        seconds(settings.lateness, "lateness"),
        settings.type,
    )
    if settings.table:
        return into_table(found, settings, settings.table, day_of="first_at")
    return into_terminal(found, settings, KEYS, "append", reporter)


def _is_unsaid(server: Column) -> Column:
    return server == UNSAID


def _answers_of(server: Column) -> Column:
    return F.filter("answers", lambda answer: answer["server"] == server)


def _problems() -> Column:
    differs = F.when(F.size(F.array_distinct("answers.digest")) > 1, "differs")
    others = [F.when(F.size(name) > 0, name) for name in ("missing", "twice", "unexpected")]
    return F.array_compact(F.array(differs, *others))


def _agreed() -> Column:
    """The digest of most servers; NULL when two digests have equally many."""
    digests = F.array_distinct("answers.digest")
    counted = F.transform(digests, lambda digest: F.struct(_servers_giving(digest).alias("servers"), digest.alias("digest")))
    most = F.sort_array(counted, asc=False)
    is_alone = (F.size(most) == 1) | (most[0]["servers"] > F.try_element_at(most, F.lit(2))["servers"])
    return F.when(is_alone, most[0]["digest"])


def _servers_giving(digest: Column) -> Column:
    given = F.filter("answers", lambda answer: answer["digest"] == digest)
    return F.size(F.array_distinct(F.transform(given, lambda answer: answer["server"])))


def _dissenting() -> Column:
    others = F.filter("answers", lambda answer: answer["digest"] != F.col("agreed"))
    return F.coalesce(
        F.array_sort(F.array_distinct(F.transform(others, lambda answer: answer["server"]))), F.array().cast("array<string>")
    )
