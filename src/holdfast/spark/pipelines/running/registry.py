"""Which pipelines there are, and what can be set for each. Does not import Spark: the command line is made from it.

A pipeline is a module of this package with `start(spark, settings, reporter)`, which gives the query that is then watched, or
with `run(spark, settings, reporter, stop)` where there is no stream to watch. It is imported when it is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from holdfast.continuity.request import DISAGREEMENT
from holdfast.errors import BadSetting
from holdfast.event.pattern import Pattern
from holdfast.spark.pipelines.auditing.settings import AuditSettings
from holdfast.spark.pipelines.running.settings import KeptSettings, Settings, StreamSettings, needed, seconds, shown_as

Period = float | str


class ArchiveSettings(StreamSettings, kw_only=True, frozen=True):
    table: Annotated[str, shown_as("DIR", "The folder of the lake table; made if it is missing.")] = ""

    def check(self) -> None:
        needed(self, "table", "it is the folder of the lake table, such as ./lake/events")
        super().check()


class StatisticsSettings(StreamSettings, kw_only=True, frozen=True):
    table: Annotated[str, shown_as("DIR", "The folder of a lake table for the rows; left out: they are printed here.")] = ""
    window: Annotated[Period, shown_as("TIME", "The length of a window, such as 10s, 5m or 1h.")] = "1m"
    slide: Annotated[Period | None, shown_as("TIME", "How often a window begins; left out: where the last one ended.")] = None
    by: Annotated[
        Literal["accepted_at", "time"],
        shown_as("COLUMN", "The time that decides: accepted_at (the server's) or time (the event's)."),
    ] = "accepted_at"
    lateness: Annotated[Period, shown_as("TIME", "How long a window is kept open for events that come late.")] = "1m"

    def check(self) -> None:
        super().check()
        window = seconds(self.window, "window")
        seconds(self.lateness, "lateness")
        if self.slide is not None and seconds(self.slide, "slide") > window:
            raise BadSetting(f"slide {self.slide} is longer than window {self.window}: events between would not be counted")
        _refuse_terminal_elsewhere(self, self.table)


class AlertsSettings(StreamSettings, kw_only=True, frozen=True):
    rules: Annotated[str, shown_as("FILE", "The rules, in TOML: name, type, selector, window, threshold, cooldown, ….")] = ""
    to: Annotated[str, shown_as("TOPIC", "The topic that alert events are sent to.")] = "alerts"
    by: Annotated[
        Literal["time", "accepted_at"],
        shown_as("COLUMN", "The time that decides: time (the event's) or accepted_at (the server's)."),
    ] = "time"
    lateness: Annotated[Period, shown_as("TIME", "How long a window is kept open for events that come late.")] = "30s"

    def check(self) -> None:
        from holdfast.spark.pipelines.rules import load_rules

        needed(self, "rules", "it is the file that says what to alert on; see docs/pipelines.md")
        needed(self, "to", "it is the topic that alerts are sent to")
        super().check()
        seconds(self.lateness, "lateness")
        load_rules(Path(self.rules))


class DivergenceSettings(StreamSettings, kw_only=True, frozen=True):
    servers: Annotated[str | list[str], shown_as("NAMES", "The servers that all have to answer, such as a,b,c.")] = ""
    type: Annotated[
        str, shown_as("TYPE", f"The type of the events that are answers; {DISAGREEMENT}: what engines of a domain tell.")
    ] = "answer"
    patience: Annotated[Period, shown_as("TIME", "How long after the last answer a transaction is judged.")] = "30s"
    lateness: Annotated[Period, shown_as("TIME", "How far the times of events may be out of order.")] = "10s"
    table: Annotated[str, shown_as("DIR", "The folder of a lake table for the rows; left out: they are printed here.")] = ""

    @property
    def server_names(self) -> list[str]:
        said = self.servers.split(",") if isinstance(self.servers, str) else self.servers
        return [name.strip() for name in said if name.strip()]

    def check(self) -> None:
        super().check()
        seconds(self.patience, "patience")
        seconds(self.lateness, "lateness")
        if len(self.server_names) < 2 and (self.server_names or self.type != DISAGREEMENT):
            raise BadSetting("--servers is missing: name the servers that all have to answer, two or more, such as a,b,c")
        _refuse_terminal_elsewhere(self, self.table)


class ReplaySettings(KeptSettings, kw_only=True, frozen=True):
    table: Annotated[str, shown_as("DIR", "The folder of the lake table to replay.")] = ""
    to: Annotated[str, shown_as("DESTINATION", "Where to send it; left out: each event to the destination it was read from.")] = (
        ""
    )
    kind: Annotated[Literal["queue", "topic"], shown_as("KIND", "What the destination is: queue or topic.")] = "topic"
    destinations: Annotated[
        str | list[str], shown_as("NAMES", "Only what was read from these, such as orders or 'alerts.*,orders'.")
    ] = ""
    since: Annotated[str, shown_as("TIME", "Only what is not older, such as 2026-11-16 or 2026-11-16T08:00:00Z.")] = ""
    until: Annotated[str, shown_as("TIME", "Only what is older.")] = ""
    by: Annotated[
        Literal["accepted_at", "time"],
        shown_as("COLUMN", "The time that decides: accepted_at (the server's) or time (the event's)."),
    ] = "accepted_at"
    selector: Annotated[
        str, shown_as("CONDITION", 'Only what matches, such as "amount > 100", by properties and attributes, not data.')
    ] = ""
    where: Annotated[str, shown_as("SQL", "Only what matches, in Spark SQL over the columns of the table.")] = ""
    chunk_events: Annotated[int, Meta(ge=1), shown_as("N", "Events that are published in one go, about.")] = 100_000

    @property
    def destination_names(self) -> list[str]:
        said = self.destinations.split(",") if isinstance(self.destinations, str) else self.destinations
        return [name.strip() for name in said if name.strip()]

    def check(self) -> None:
        from holdfast.spark.pipelines.selector_condition import spark_sql

        needed(self, "table", "it is the folder of the lake table that `holdfast pipeline archive` wrote")
        super().check()
        since, until = moment(self.since, "since"), moment(self.until, "until")
        if since is not None and until is not None and since >= until:
            raise BadSetting(
                f"there is no time between since {self.since} and until {self.until}; turn them round", setting="until"
            )
        for name in self.destination_names:
            Pattern.glob(name)
        if self.selector:
            spark_sql(self.selector)


class Pipeline(NamedTuple):
    name: str
    sentence: str
    settings: type[Settings]
    examples: tuple[str, ...]
    exits: Mapping[int, str] = {}  # exit codes of its own, and what they mean


_READ = "holdfast pipeline {0} --destinations orders --subscription {0} --checkpoint ./checkpoints/{0}"

PIPELINES = (
    Pipeline(
        "archive",
        "Write every event into a lake table, exactly once, and confirm it when the table holds it.",
        ArchiveSettings,
        (
            f"{_READ.format('archive')} --table ./lake/events --once",
            f"{_READ.format('archive')} --table ./lake/events --every 10 --max-events 1000000",
            "holdfast pipeline archive --config pipeline.toml --spark-master spark://head:7077",
        ),
    ),
    Pipeline(
        "statistics",
        "Measure the events of each window, destination and type: how many, how large, how long they took.",
        StatisticsSettings,
        (
            f"{_READ.format('statistics')} --window 1m",
            f"{_READ.format('statistics')} --window 5m --table ./lake/statistics --once",
        ),
    ),
    Pipeline(
        "alerts",
        "Watch rules over windows of events, and send an alert event to a topic where one is past its threshold.",
        AlertsSettings,
        (f"{_READ.format('alerts')} --rules rules.toml --to alerts",),
    ),
    Pipeline(
        "divergence",
        "Compare the answers of replicated servers, and name the transactions in which they do not agree.",
        DivergenceSettings,
        (
            f"{_READ.format('divergence')} --servers a,b,c --table ./lake/divergence --once",
            "holdfast pipeline divergence --destinations domain.shop.disagreements --subscription divergence "
            f"--type {DISAGREEMENT} --checkpoint ./checkpoints/divergence",
        ),
    ),
    Pipeline(
        "replay",
        "Send what a lake table holds to a destination again, each event once and with its own id.",
        ReplaySettings,
        (
            "holdfast pipeline replay --table ./lake/events --to orders-again --checkpoint ./checkpoints/replay",
            "holdfast pipeline replay --table ./lake/events --since 2026-11-16 --until 2026-11-17 "
            "--selector \"type LIKE 'order.%'\" --checkpoint ./checkpoints/replay",
        ),
    ),
    Pipeline(
        "audit",
        "Hold what producers were receipted against what is archived, waits or is dead, and name what was lost or came twice.",
        AuditSettings,
        (
            "holdfast pipeline audit --destinations orders --subscription archive --table ./lake/events --receipts sent.jsonl",
            "holdfast pipeline audit --config pipeline.toml --html audit.html --json",
        ),
        {0: "nothing is lost, nothing is there twice", 5: "something is lost, or there twice: the report names it"},
    ),
)
NAMES = tuple(pipeline.name for pipeline in PIPELINES)


def moment(text: str, name: str) -> datetime | None:
    """A time as people write it; without a zone it is UTC."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BadSetting(
            f"{name} {text!r} is not a time; write it like 2026-11-16 or 2026-11-16T08:00:00Z", setting=name
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _refuse_terminal_elsewhere(settings: Settings, table: str) -> None:
    if settings.remote and not table:
        raise BadSetting("with --remote the rows cannot be printed here; give --table", setting="table")
