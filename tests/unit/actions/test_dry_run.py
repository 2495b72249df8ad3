"""A dry run tells which rules count an event, why, and what would be done."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.actions.dry_run import dry_run
from holdfast.actions.rules_file import load, parse
from holdfast.errors import BadEvent

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "alerting" / "rules.toml"


def test_it_says_why_an_event_does_not_count_and_what_is_done_when_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "tops3cret")
    rules = parse(
        """
        [rules.r]
        topics = ["disk.*"]
        type = "full*"
        selector = "percent > 90"
        key = "host"
        count = 2
        within = "10s"
        actions = [{ do = "run", command = ["restart", "{host}", "${env:TOKEN}"] }]
        """,
        Path(),
    )
    full = {"topic": "disk.a", "type": "fullish", "properties": {"host": "w", "percent": 97}}

    found = dry_run(rules, [{"topic": "cpu"}, {"topic": "disk.a"}, {**full, "properties": {}}, full, full])

    assert [(each.event, each.is_counted) for each in found] == [(1, False), (2, False), (3, False), (4, True), (5, True)]
    assert [each.why for each in found] == [
        "'cpu' is none of its topics (disk.*)",
        "its type 'event' is not 'full*'",
        "the selector is not true: percent > 90",
        "for host 'w': 1 of 2 events within 10 s",
        "for host 'w': 2 events within 10 s",
    ]
    (alert,) = found[-1].alerts
    assert alert["actions"][0]["would"] == "run ['restart', 'w', '***'] with the alert on its standard input"


@pytest.mark.parametrize(
    ("rule", "events", "later_s"),
    [
        ("disk-full", [{"topic": "metrics.disk.root", "properties": {"host": "a", "site": "b", "percent": 97}}] * 3, 31),
        ("job-missed", [{"topic": "jobs.nightly", "properties": {"job": "backup", "outcome": "done"}}], 25 * 3_600),
        ("error-rate", [{"topic": "logs.a.b", "properties": {"level": "ERROR", "service": "shop"}}] * 20, 0),
        ("certificate-expires", [{"topic": "certificates", "properties": {"domain": "x.org", "days_left": 3}, "at": 43_200}], 0),
        ("queue-too-long", [{"topic": "_LOG", "data": "full", "properties": {"logger": "holdfast.flow", "level": "WARNING"}}], 0),
    ],
)
def test_the_rules_people_really_need_tell_when_they_should(rule: str, events: list[dict[str, object]], later_s: int) -> None:
    fewer = dry_run(load(EXAMPLE), events[:-1])
    found = dry_run(load(EXAMPLE), events, later_s * 1_000_000)

    assert {each.rule for each in found if each.alerts} == {rule}
    assert [each for each in fewer if each.alerts] == []


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({}, "neither topic nor queue"),
        ([], "is no object"),
        ({"topic": "t", "colour": 1}, "unknown field 'colour'"),
        ({"topic": "t", "at": "noon"}, "no time 'noon'"),
        ({"topic": "t", "type": 7}, "is not as an event should be"),
        ({"topic": "t", "properties": {"a": []}}, "should be"),
    ],
)
def test_an_event_that_is_none_is_refused(event: dict[str, object], said: str) -> None:
    with pytest.raises(BadEvent, match=said):
        dry_run(load(EXAMPLE), [event])
