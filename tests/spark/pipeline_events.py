"""A frame of events as the source gives them, of which a test says only what it is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
COLUMNS = (
    "destination string, position long, accepted_at timestamp, id string, source string, type string, time timestamp, "
    "subject string, datacontenttype string, dataschema string, event_group string, correlation_id string, reply_to string, "
    "priority int, expires_at timestamp, size long, properties map<string,string>, data binary"
)


def at(seconds: float) -> datetime:
    """So long after noon."""
    return NOON + timedelta(seconds=seconds)


def event(seconds: float = 0.0, **said: Any) -> dict[str, Any]:
    """An event that was recognised then and accepted at once."""
    return {
        "destination": "orders",
        "position": 65_536,
        "accepted_at": at(seconds),
        "id": "1",
        "source": "test",
        "type": "order.placed",
        "time": at(seconds),
        "datacontenttype": "application/json",
        "priority": 4,
        "size": 2,
        "properties": {},
        "data": b"{}",
        **said,
    }


def frame(spark: SparkSession, events: list[dict[str, Any]]) -> DataFrame:
    names = [column.split()[0] for column in COLUMNS.split(", ")]
    return spark.createDataFrame([tuple(each.get(name) for name in names) for each in events], COLUMNS)


def rows(found: DataFrame) -> list[dict[str, Any]]:
    return [_in_utc(row.asDict(recursive=True)) for row in found.collect()]


def _in_utc(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.astimezone(UTC) if isinstance(value, datetime) else value for name, value in row.items()}
