"""Alerts (D4): rules over windows, on a few events with a known answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.spark.pipelines.alerts import alert_of, alerts, to_event
from holdfast.spark.pipelines.cooldown import Alert
from holdfast.spark.pipelines.rules import Rule
from tests.spark.pipeline_events import at, event, frame

pytestmark = pytest.mark.spark

Facts = tuple[str, tuple[str | None, ...], float, float]


def found_by(spark: SparkSession, events: list[dict[str, Any]], *rules: Rule) -> list[Alert]:
    return sorted(
        (alert_of(row) for row in alerts(frame(spark, events), rules).collect()),
        key=lambda alert: (alert.key, alert.window_start),
    )


def facts(alert: Alert) -> Facts:
    return alert.rule, alert.group, (alert.window_start - at(0)).total_seconds(), alert.value


def test_a_rule_alerts_in_the_windows_in_which_its_measure_is_past_the_threshold(spark: SparkSession) -> None:
    """D4: rules of every measure, of two windows, over one set of payments."""
    paid = [event(n, type="payment.made", properties={"amount": str(n)}) for n in (1, 2, 3, 61, 62)]
    failed = [event(n, type="payment.failed", properties={"amount": "x"}) for n in (4, 5)]
    amount = "properties['amount']"

    found = found_by(
        spark,
        paid + failed,
        Rule(name="count", type="payment.made", window="1m", threshold=3),
        Rule(name="any", type="payment.*", window=60, threshold=4),
        Rule(name="sum", measure="sum", field=amount, window="1m", threshold=100),
        Rule(name="avg", measure="avg", field=amount, window="1m", threshold=2, when="<="),
        Rule(name="least", measure="min", field=amount, window="2m", threshold=1, when="<"),
        Rule(name="most", measure="max", field=amount, window="2m", threshold=62),
    )

    assert [facts(alert) for alert in found] == [
        ("any", (), 0, 5),
        ("avg", (), 0, 2),
        ("count", (), 0, 3),
        ("most", (), 0, 62),
        ("sum", (), 60, 123),
    ]


def test_each_group_is_counted_for_itself_and_a_missing_value_is_a_group_too(spark: SparkSession) -> None:
    events = [event(n, properties={"customer": "ann"} if n < 3 else {}) for n in range(5)]
    rule = Rule(name="busy", window="1m", threshold=2, group_by=("destination", "properties['customer']"))

    found = found_by(spark, events, rule)

    assert {alert.group: alert.value for alert in found} == {("orders", "ann"): 3, ("orders", None): 2}


def test_selector_and_where_leave_out_what_does_not_match(spark: SparkSession) -> None:
    events = [event(n, size=n, properties={"amount": str(n)}) for n in range(10)]
    rule = Rule(name="large", selector="amount > 4 AND amount <> 6", where="size < 8", window="1m", threshold=1)

    [alert] = found_by(spark, events, rule)

    assert (alert.rule, alert.value) == ("large", 2)  # 5 and 7


def test_a_window_that_slides_alerts_at_each_of_its_places(spark: SparkSession) -> None:
    rule = Rule(name="burst", window=20, slide=10, threshold=2)

    found = found_by(spark, [event(12), event(18)], rule)

    assert [(facts(alert)[2], alert.events) for alert in found] == [(0, 2), (10, 2)]


def test_an_alert_event_says_what_happened_and_has_the_same_id_whenever_it_is_made() -> None:
    rule = Rule(name="busy", window="1m", threshold=2, group_by=("destination", "properties['customer']", "data.country"))
    alert = Alert("busy", ("orders", "ann", None), at(0), at(60), 3, 3.0)

    made = to_event(alert, rule)

    assert made["id"] == to_event(alert, rule)["id"]
    assert made["id"] != to_event(alert._replace(group=("orders", "bob", None)), rule)["id"]
    assert (made["type"], made["subject"], made["time"]) == ("holdfast.alert", "busy", at(60))
    assert made["properties"] == {"rule": "busy", "value": "3", "threshold": "2", "destination": "orders", "customer": "ann"}
    said = json.loads(made["data"])
    assert said["group"] == {"destination": "orders", "customer": "ann", "country": None}
    assert (said["window_start"], said["events"]) == ("2026-11-16T12:00:00+00:00", 3)


def test_two_parts_of_a_group_that_would_be_called_the_same_are_told_apart() -> None:
    rule = Rule(name="busy", window="1m", threshold=2, group_by=("data.id", "properties['id']"))

    made = to_event(Alert("busy", ("1", "2"), at(0), at(60), 3, 3.0), rule)

    assert json.loads(made["data"])["group"] == {"data.id": "1", "properties['id']": "2"}
