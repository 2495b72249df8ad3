"""Selectors over a table (D4): translated to Spark SQL they choose what they choose on a server."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast.errors import BadSelector
from holdfast.event.event import Head, encode_head
from holdfast.event.selector.selector import Selector, View
from holdfast.spark.pipelines.selector_condition import spark_sql
from tests.spark.pipeline_events import NOON, event, frame

pytestmark = pytest.mark.spark

EVENTS: list[dict[str, Any]] = [
    {"properties": {"amount": 100, "region": "eu"}},
    {"properties": {"amount": 100.5, "region": "us", "is_urgent": True}},
    {"properties": {"amount": -7, "other": -7, "is_urgent": False}},
    {"properties": {"region": "it's\\100%_!"}},
    {"properties": {}},
    {"type": "order.paid", "subject": "nine", "priority": 9},
    {"type": "order_paid", "subject": "", "group": "g"},
    {"correlation_id": "c", "reply_to": "r", "id": "own"},
]
SELECTORS = [
    "amount > 100",
    "NOT (amount > 100)",
    "amount = 100 OR amount = 100.5",
    "amount BETWEEN -10 AND 100",
    "amount NOT BETWEEN -10 AND 100",
    "amount + 1 > 101 AND amount * 2 - 1 < 1e3",
    "-amount = 7",
    "amount IN (100, -7)",
    "amount = other",
    "amount <= other",
    "region IN ('eu', 'it''s\\100%_!')",
    "region NOT IN ('eu')",
    "region LIKE '%\\%' OR region LIKE 'e_'",
    "region LIKE '%!%!_!!' ESCAPE '!'",
    "region LIKE '%#%#_!' ESCAPE '#'",
    "region NOT LIKE 'e%'",
    "region <> 'eu'",
    "is_urgent",
    "NOT is_urgent",
    "is_urgent = FALSE OR region IS NULL",
    "region IS NOT NULL AND amount IS NULL",
    "type LIKE 'order._%' AND priority > 4",
    "type LIKE 'order#_%' ESCAPE '#'",
    "subject = '' OR JMSXGroupID = 'h'",
    "group = 'g' AND correlation_id IS NULL",
    "JMSCorrelationID = 'c' AND reply_to = 'r' AND JMSMessageID = 'own'",
    "time >= 1794830400000 AND time < 1794830400001",
    "expires_at IS NULL AND JMSDeliveryMode = 'PERSISTENT' AND source = 'test'",
    "TRUE",
    "FALSE OR datacontenttype = 'application/json'",
]


def view(said: dict[str, Any]) -> View:
    facts = {name: value for name, value in said.items() if name != "priority"}
    facts = {"type": "order.placed", "id": "1", **facts}
    return View(encode_head(Head(time_us=int(NOON.timestamp() * 1e6), **facts)), "test", 0, said.get("priority", 4))


def row(number: int, said: dict[str, Any]) -> dict[str, Any]:
    """As it is in a table: properties are texts, as JSON writes them."""
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in said.get("properties", {}).items()
    }
    facts = {"event_group" if name == "group" else name: value for name, value in said.items()}
    return event(0, **{**facts, "properties": texts, "position": number})


def test_a_selector_chooses_the_same_events_in_a_table_as_on_a_server(spark: SparkSession) -> None:
    chosen = [F.expr(spark_sql(text)).alias(f"s{number}") for number, text in enumerate(SELECTORS)]

    found = frame(spark, [row(number, said) for number, said in enumerate(EVENTS)]).select("position", *chosen).collect()

    for number, text in enumerate(SELECTORS):
        in_table = sorted(each["position"] for each in found if each[f"s{number}"])
        on_server = [place for place, said in enumerate(EVENTS) if Selector(text).matches(view(said))]
        assert in_table == on_server, f"{text}: {spark_sql(text)}"


def test_a_selector_that_divides_or_is_none_is_refused() -> None:
    with pytest.raises(BadSelector, match="where"):
        spark_sql("amount / 2 > 1")
    with pytest.raises(BadSelector, match="amount >"):
        spark_sql("amount >")
