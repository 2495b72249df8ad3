"""Alerts: rules over windows of events; what is past a threshold becomes an event in a topic, exactly once.

    events ─▶ rules that match ─▶ windows ─▶ past the threshold ─▶ cooldown ─▶ alert event

Rules with the same window are counted in one go, whatever they look for. A window is complete when the watermark has passed its
end: `lateness` after it, in the time of the events; what comes later is not counted. An alert event:

    type        holdfast.alert            subject     the name of the rule
    id          the same for the same rule, group and window, whenever it is computed
    time        the end of the window     properties  rule, value, threshold, and the group under its names, as far as they fit
    data        {"rule", "value", "threshold", "when", "measure", "events", "group", "window_start", "window_end"}

Exactly once: a batch that is run again finds the same windows and the same cooldown, and is published under the same number of
the same scope, which the server takes once.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec
from pyspark.sql import functions as F

from holdfast.spark.pipelines.cooldown import Alert, QuietNotes, cooled
from holdfast.spark.pipelines.rules import Rule, load_rules
from holdfast.spark.pipelines.running.notes import notes_in
from holdfast.spark.pipelines.running.settings import seconds
from holdfast.spark.pipelines.statistics import period

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from holdfast.spark.pipelines.running.progress import Reporter
    from holdfast.spark.pipelines.running.registry import AlertsSettings

log = logging.getLogger(__name__)

TYPE = "holdfast.alert"
ROW = "id string, type string, subject string, time timestamp, datacontenttype string, properties map<string,string>, data string"
_PROPERTY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def alerts(events: DataFrame, rules: Sequence[Rule], by: str = "time", lateness_seconds: float = 30.0) -> DataFrame:
    """The windows past a threshold: rule, group (values in the order of `group_by`), window_start, window_end, events, value."""
    timed = events.withColumn("moment", F.coalesce(F.col(by), F.col("time")))
    watched = timed.withWatermark("moment", period(lateness_seconds))
    in_order = sorted(rules, key=_window)
    branches = [_windows(watched, list(same)) for _, same in groupby(in_order, key=_window)]
    return reduce(lambda one, other: one.unionByName(other), branches)


def to_event(alert: Alert, rule: Rule) -> dict[str, Any]:
    """The alert event, as a row for the sink."""
    group = dict(zip(_group_names(rule), alert.group, strict=True))
    said = {"rule": rule.name, "value": f"{alert.value:g}", "threshold": f"{rule.threshold:g}"}
    told = {name: value for name, value in group.items() if value is not None and _PROPERTY_NAME.fullmatch(name)}
    return {
        "id": _identifier(alert),
        "type": TYPE,
        "subject": rule.name,
        "time": alert.window_end,
        "datacontenttype": "application/json",
        "properties": told | said,
        "data": msgspec.json.encode(_data(alert, rule, group)).decode(),
    }


def of_rules(windows: Iterable[Alert], rules: Mapping[str, Rule]) -> list[Alert]:
    """The windows that the rules, by name, still speak of: the checkpoint may hold some that were begun by other rules."""
    return [each for each in windows if each.rule in rules and len(each.group) == len(rules[each.rule].group_by)]


def start(spark: SparkSession, settings: AlertsSettings, reporter: Reporter) -> StreamingQuery:
    from holdfast.spark.pipelines.running.runner import read_stream, writer

    rules = load_rules(Path(settings.rules))
    found = alerts(read_stream(spark, settings), rules, settings.by, seconds(settings.lateness, "lateness"))
    return writer(found, settings).outputMode("append").foreachBatch(_publisher(settings, rules)).start()


def _publisher(settings: AlertsSettings, rules: Sequence[Rule]) -> Callable[[DataFrame, int], None]:
    """Send the alerts of a batch. It may be called again for the same batch, with the same outcome."""
    by_name = {rule.name: rule for rule in rules}
    cooldowns = {rule.name: rule.cooldown_seconds for rule in rules}
    notes = notes_in(settings.checkpoint)
    scope = notes.read("scope") or f"alerts-{uuid4()}"
    notes.write("scope", scope)
    quiet = QuietNotes(notes_in(settings.checkpoint, "quiet"))

    def publish(windows: DataFrame, batch: int) -> None:
        there = [alert_of(row) for row in windows.collect()]
        found = of_rules(there, by_name)
        if len(found) < len(there):
            log.warning(
                "%d windows were left out: the rules were changed since they were begun, and the rule of each is gone or has "
                "another group_by",
                len(there) - len(found),
            )
        if not found:
            return
        kept, after = cooled(found, quiet.before(batch), cooldowns)
        quiet.keep(batch, after)
        if kept:
            rows = windows.sparkSession.createDataFrame([to_event(alert, by_name[alert.rule]) for alert in kept], ROW)
            _send(rows, settings, scope, batch)

    return publish


def _send(rows: DataFrame, settings: AlertsSettings, scope: str, batch: int) -> None:
    options = {
        "url": settings.url,
        "timeout": f"{settings.timeout:g}",
        "destination": settings.to,
        "kind": "topic",
        "scope": scope,
        "number": str(batch),
    }
    rows.coalesce(1).write.format("holdfast").options(**options).mode("append").save()


def alert_of(row: Any) -> Alert:
    """A row of `alerts`; Spark hands out times in the zone of the machine."""
    begin, end = (datetime.fromtimestamp(row[name].timestamp(), UTC) for name in ("window_start", "window_end"))
    return Alert(row["rule"], tuple(row["group"]), begin, end, row["events"], row["value"])


def _window(rule: Rule) -> tuple[float, float]:
    return rule.window_seconds, rule.slide_seconds


def _windows(events: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """The windows of rules that have the same one: each event once for every rule that matches it, then counted by rule."""
    matching = F.filter(F.array(*map(_match, rules)), lambda match: match.isNotNull())
    matched = events.select("moment", F.explode(matching).alias("match"))
    length, slide = _window(rules[0])
    span = F.window("moment", period(length), period(slide))
    grouped = matched.groupBy(span.alias("span"), "match.rule", "match.group").agg(
        F.count("*").alias("events"),
        *(getattr(F, measure)("match.value").alias(measure) for measure in ("sum", "avg", "min", "max")),
    )
    named = grouped.select(
        "rule",
        "group",
        F.col("span.start").alias("window_start"),
        F.col("span.end").alias("window_end"),
        "events",
        F.coalesce(*(F.when(F.col("rule") == rule.name, _measured(rule)) for rule in rules)).alias("value"),
    )
    return named.where(reduce(lambda one, other: one | other, map(_is_past, rules)))


def _match(rule: Rule) -> Column:
    keys = F.array(*(F.expr(key).cast("string") for key in rule.group_by)).cast("array<string>")
    value = F.expr(f"try_cast(({rule.field}) AS DOUBLE)") if rule.field else F.lit(None).cast("double")
    return F.when(F.expr(rule.condition()), F.struct(F.lit(rule.name).alias("rule"), keys.alias("group"), value.alias("value")))


def _measured(rule: Rule) -> Column:
    return F.col("events" if rule.measure == "count" else rule.measure).cast("double")


def _is_past(rule: Rule) -> Column:
    return F.expr(f"value {rule.when} CAST('{rule.threshold}' AS DOUBLE)") & (F.col("rule") == rule.name)


def _group_names(rule: Rule) -> Sequence[str]:
    """`customer` for `properties['customer']` and `data.customer`; as they are written where two would be called the same."""
    short = [re.sub(r".*\['(.*)'\]|.*\.", r"\1", name) for name in rule.group_by]
    return short if len(set(short)) == len(short) else rule.group_by


def _identifier(alert: Alert) -> str:
    facts = msgspec.json.encode([alert.key, alert.window_start.isoformat(), alert.window_end.isoformat()])
    return f"alert-{hashlib.sha256(facts).hexdigest()[:32]}"


def _data(alert: Alert, rule: Rule, group: dict[str, str | None]) -> dict[str, Any]:
    return {
        "rule": rule.name,
        "value": alert.value,
        "threshold": rule.threshold,
        "when": rule.when,
        "measure": rule.measure,
        "events": alert.events,
        "group": group,
        "window_start": alert.window_start.isoformat(),
        "window_end": alert.window_end.isoformat(),
    }
