"""Metrics, their document, the dashboard and the alerts speak of the same things."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.http.metrics import CLUSTER_METRICS, PREFIX
from holdfast.http.metrics import METRICS as SERVER_METRICS

TOP = Path(__file__).parents[2]
DASHBOARD = TOP / "packaging" / "grafana" / "holdfast.json"
ALERTS = TOP / "packaging" / "prometheus" / "alerts.yml"
METRICS = {**SERVER_METRICS, **CLUSTER_METRICS}
NAMED = re.compile(r"\bholdfast_\w+")


def _exposed() -> set[str]:
    """Return the names of all series: those of a histogram have endings."""
    plain = {PREFIX + name for name, each in METRICS.items() if each.kind != "histogram"}
    timed = {PREFIX + name for name, each in METRICS.items() if each.kind == "histogram"}
    return plain | {name + ending for name in timed for ending in ("_bucket", "_count", "_sum")}


def test_the_document_lists_every_metric_with_its_kind_and_labels_and_no_other() -> None:
    rows = re.findall(
        r"^\| `(holdfast_\w+)` \| (\w+) \| (.*?) \| (.+?) \|$", (TOP / "docs" / "metrics.md").read_text(), re.MULTILINE
    )

    listed = {name: (kind, tuple(re.findall(r"`(\w+)`", labels)), help) for name, kind, labels, help in rows}

    assert len(rows) == len(listed)
    assert listed == {PREFIX + name: (each.kind, each.labels, each.help) for name, each in METRICS.items()}


def _expressions(value: Any) -> list[str]:
    """Return all queries of a dashboard, of panels and of variables."""
    if isinstance(value, dict):
        own = [each for name, each in value.items() if name in ("expr", "definition", "query") and isinstance(each, str)]
        return own + [found for each in value.values() for found in _expressions(each)]
    return [found for each in value for found in _expressions(each)] if isinstance(value, list) else []


def test_the_dashboard_is_whole_and_asks_only_for_metrics_that_exist() -> None:
    dashboard = json.loads(DASHBOARD.read_text())

    named = {name for expression in _expressions(dashboard) for name in NAMED.findall(expression)}

    assert {"uid", "title", "schemaVersion", "panels", "templating", "time"} <= dashboard.keys()
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    assert all(panel["targets"] and panel["title"] and panel["gridPos"] for panel in dashboard["panels"])
    assert named - _exposed() == set()
    assert _exposed() - named <= {PREFIX + name + ending for name in METRICS for ending in ("_count", "_sum")}


def test_the_alerts_ask_only_for_metrics_that_exist_and_each_says_what_to_do() -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]

    assert {name for rule in rules for name in NAMED.findall(rule["expr"])} - _exposed() == set()
    assert all(rule["annotations"].keys() == {"summary", "description"} and rule["labels"]["severity"] for rule in rules)
    assert len({rule["alert"] for rule in rules}) == len(rules) > 0


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_prometheus_takes_the_alerts() -> None:
    done = subprocess.run(["promtool", "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_prometheus_takes_every_query_of_the_dashboard(tmp_path: Path) -> None:
    """As recording rules, which are checked without a server: with values in place of Grafana's variables."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    queries = [target["expr"].replace("$__rate_interval", "5m") for panel in panels for target in panel["targets"]]
    rules = [{"record": f"query:{place}", "expr": query} for place, query in enumerate(queries)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))

    done = subprocess.run(
        ["promtool", "check", "rules", str(tmp_path / "rules.yml")], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
