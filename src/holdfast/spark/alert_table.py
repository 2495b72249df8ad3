"""The action `table` of rules: alerts become rows of a lake table, in batches (by entry point; the extra `spark`).

    do = "table"
    path = "./lake/alerts"
    every = "5s"              # gather alerts for so long: fewer, larger files

A row has the alert, and its newest event. Rows are on disk before their alerts are confirmed. An alert that comes again,
because the program was killed in between, is looked for first: each is there once. No Spark session is needed; Spark, DuckDB
and others read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa

from holdfast.actions.alert import Alert
from holdfast.actions.kinds.action import Action, Complaint
from holdfast.actions.machines.seen import key_text
from holdfast.destination.settings import duration_ms
from holdfast.errors import HoldfastError
from holdfast.spark.lake.files import LakeFiles
from holdfast.spark.lake.table import Lake, local_folder

PARTITION_BY = ("date",)
SCHEMA = pa.schema(
    [
        pa.field("date", pa.string()),
        pa.field("id", pa.string()),
        pa.field("program", pa.string()),
        pa.field("rule", pa.string()),
        pa.field("severity", pa.string()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("reason", pa.string()),
        pa.field("summary", pa.string()),
        pa.field("group", pa.string()),
        pa.field("key", pa.string()),
        pa.field("count", pa.int64()),
        pa.field("suppressed", pa.int64()),
        pa.field("destination", pa.string()),
        pa.field("event_id", pa.string()),
        pa.field("event_type", pa.string()),
        pa.field("event_source", pa.string()),
        pa.field("properties", pa.map_(pa.string(), pa.string())),
        pa.field("data", pa.string()),
    ]
)


class Table(Action):
    class Settings(msgspec.Struct, kw_only=True):
        path: str
        every: str | int | float = 5

    settings: Settings
    BATCH_MAX = 10_000

    @classmethod
    def complaints(cls, settings: Any) -> Iterator[Complaint]:
        for name, check in (
            ("path", lambda: local_folder(settings.path)),
            ("every", lambda: duration_ms(settings.every, "every")),
        ):
            try:
                check()
            except HoldfastError as problem:
                yield name, problem.sentence

    @property
    def gather_s(self) -> float:
        return duration_ms(self.settings.every, "every") / 1000

    @property
    def _folder(self) -> str:
        path = self.settings.path
        return local_folder(path if ":" in path else str(self.surroundings.path(path)))

    def do(self, alerts: Sequence[Alert]) -> None:
        lake = Lake(self._folder)
        lake.check(SCHEMA, PARTITION_BY)
        known = self._known(lake, alerts)
        rows = [_row(alert) for alert in alerts if alert.id not in known]
        if not rows:
            return
        files = LakeFiles(self._folder, PARTITION_BY, "actions")
        try:
            files.put(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
            lake.commit(SCHEMA, PARTITION_BY, files.finish())
        except BaseException:
            files.discard()
            raise

    def _known(self, lake: Lake, alerts: Sequence[Alert]) -> set[str]:
        """The ids of alerts that were handed out before, and are in the table already."""
        repeated = [alert for alert in alerts if alert.is_repeated]
        table = lake.table_or_none() if repeated else None
        if table is None:
            return set()
        dates = sorted({alert.at[:10] for alert in repeated})
        found = table.to_pyarrow_table(partitions=[("date", "in", dates)], columns=["id"])
        return set(found["id"].to_pylist()) & {alert.id for alert in repeated}

    def describe(self, alert: Alert) -> str:
        return f"add a row to the lake table {self.settings.path}: {msgspec.json.encode(alert).decode()}"


def _row(alert: Alert) -> dict[str, Any]:
    event = alert.example
    data = event.get("data")
    return {
        "date": alert.at[:10],
        "id": alert.id,
        "program": alert.program,
        "rule": alert.rule,
        "severity": alert.severity,
        "at": datetime.fromisoformat(alert.at),
        "reason": alert.reason,
        "summary": alert.summary,
        "group": alert.group,
        "key": alert.key,
        "count": alert.count,
        "suppressed": alert.suppressed,
        "destination": event.get("destination"),
        "event_id": event.get("id"),
        "event_type": event.get("type"),
        "event_source": event.get("source"),
        "properties": [(name, key_text(value)) for name, value in event.get("properties", {}).items()],
        "data": None if data is None else msgspec.json.encode(data).decode(),
    }
