"""Counters that the rules change: a metric with other labels begins anew, and stops nothing."""

from __future__ import annotations

import pytest

from holdfast.actions import Alert, Surroundings
from holdfast.actions.kinds.count import Count, Counters

ALERT = Alert(
    id="1", rule="r", at="2026-01-01T00:00:00+00:00", count=1, events=[{"properties": {"site": "eu", "kind": "card", "n": 3}}]
)


def test_a_metric_that_has_other_labels_or_buckets_after_a_reload_begins_anew() -> None:
    surroundings = Surroundings("p")
    surroundings.metrics = "127.0.0.1:0"
    before = Count.Settings(metric="orders_total", labels={"site": "site"})
    other = Count.Settings(metric="orders_total", labels={"site": "site", "kind": "kind"})
    histogram = Count.Settings(metric="orders_total", value="n", buckets=[1, 10])

    for settings in (before, before, other, other, other, histogram):
        Count(settings, surroundings).do([ALERT])
        counters: Counters = surroundings.shared("holdfast.actions.counters", lambda: None)
        if settings is other:
            assert counters.registry.get_sample_value("orders_total", {"site": "eu"}) is None

    assert counters.registry.get_sample_value("orders_total_bucket", {"le": "10.0"}) == 1


@pytest.mark.parametrize(
    "settings", [{"metric": "holdfast_rules_x"}, {"metric": "x", "labels": {"le": "y"}, "value": "n", "buckets": [1]}]
)
def test_a_metric_that_cannot_be_shown_is_refused(settings: dict[str, object]) -> None:
    assert [setting for setting, _ in Count.complaints(Count.Settings(**settings))] == ["metric"]  # type: ignore[arg-type]
