"""The rules of alerts, and their cooldown: both without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.errors import BadSelector, BadSetting
from holdfast.spark.pipelines.alerts import of_rules, to_event
from holdfast.spark.pipelines.cooldown import STATES_KEPT, Alert, QuietNotes, cooled
from holdfast.spark.pipelines.rules import Rule, load_rules
from holdfast.spark.pipelines.running.notes import notes_in

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
RULE = "[[rule]]\nname = 'a'\nwindow = '1m'\nthreshold = 1\n"


def window(minute: int, rule: str = "r", *group: str | None) -> Alert:
    start = NOON + timedelta(minutes=minute)
    return Alert(rule, group, start, start + timedelta(minutes=1), 1, 1.0)


def minutes(alerts: list[Alert]) -> list[int]:
    return [int((alert.window_start - NOON).total_seconds() // 60) for alert in alerts]


def test_a_rule_is_read_with_all_it_says(tmp_path: Path) -> None:
    said = (
        "type = 'order.*'\nselector = 'amount > 1'\nwhere = 'size > 2'\nslide = 30\ngroup_by = ['destination']\ncooldown = '1h'\n"
    )
    (tmp_path / "rules.toml").write_text(RULE + said)

    [rule] = load_rules(tmp_path / "rules.toml")

    assert (rule.window_seconds, rule.slide_seconds, rule.cooldown_seconds, rule.group_by) == (60, 30, 3600, ("destination",))
    assert rule.condition() == (
        r"type RLIKE '\\Aorder\\..*\\z' AND (try_cast(properties['amount'] AS DOUBLE) > 1D) AND (size > 2)"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no rules"),
        ("[[rules]]\nname = 'a'", "did you mean rule?"),
        (RULE + "treshold = 3", "did you mean threshold?"),
        ("[[rule]]\nname = 'a'\nwindow = '1m'", "threshold"),
        (RULE + RULE, "2 rules named 'a'"),
        (RULE + "measure = 'sum'", "do not go together"),
        (RULE + "field = 'size'", "do not go together"),
        (RULE + "measure = 'median'", "measure"),
        (RULE + "slide = '2m'", "longer than its window"),
        (RULE + "cooldown = 'long'", "cooldown 'long' is not a time"),
        (RULE + "threshold = 2", "is not TOML"),
    ],
)
def test_rules_that_cannot_be_meant_are_refused_with_what_is_wrong(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "rules.toml").write_text(text)

    with pytest.raises(BadSetting) as refused:
        load_rules(tmp_path / "rules.toml")

    assert sentence in refused.value.sentence


def test_a_selector_that_is_none_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(RULE + "selector = 'amount >'")

    with pytest.raises(BadSelector):
        load_rules(tmp_path / "rules.toml")


def test_after_an_alert_its_rule_and_group_are_quiet_for_the_cooldown_and_others_are_not() -> None:
    windows = [*(window(minute, "r", "ann") for minute in range(7)), window(2, "r", "bob"), window(3, "r", None), window(3, "s")]

    kept, quiet = cooled(windows, {}, {"r": 180.0, "s": 0.0})

    assert [(alert.rule, alert.group) for alert in kept if alert.group != ("ann",)] == [
        ("r", ("bob",)),
        ("r", (None,)),
        ("s", ()),
    ]
    assert minutes([alert for alert in kept if alert.group == ("ann",)]) == [0, 3, 6]
    assert quiet == {'["r","ann"]': (NOON + timedelta(minutes=10)).timestamp()}


def test_without_a_cooldown_every_window_alerts() -> None:
    kept, quiet = cooled([window(minute) for minute in (2, 0, 1)], {}, {"r": 0.0})

    assert (minutes(kept), quiet) == ([0, 1, 2], {})


def test_windows_of_a_rule_that_is_gone_or_groups_otherwise_now_are_left_out() -> None:
    rules = {"r": Rule(name="r", threshold=1, window=1, group_by=("destination",)), "s": Rule(name="s", threshold=1, window=1)}
    windows = [
        window(0, "r", "ann"),
        window(1, "r"),
        window(2, "r", "ann", "x"),
        window(3, "gone"),
        window(4, "s"),
        window(5, "s", None),
    ]

    kept = of_rules(windows, rules)

    assert minutes(kept) == [0, 4]
    assert [to_event(alert, rules[alert.rule])["subject"] for alert in kept] == ["r", "s"]


def test_cut_into_batches_anywhere_the_same_windows_alert() -> None:
    windows = [window(minute) for minute in range(20)]
    whole, _ = cooled(windows, {}, {"r": 240.0})

    for cut in range(20):
        first, quiet = cooled(windows[:cut], {}, {"r": 240.0})
        second, _ = cooled(windows[cut:], quiet, {"r": 240.0})
        assert first + second == whole


def test_a_batch_that_is_run_again_begins_with_what_it_began_with(tmp_path: Path) -> None:
    states = QuietNotes(notes_in(str(tmp_path)))
    states.keep(3, {"a": 1.0})
    states.keep(9, {"b": 2.0})
    states.keep(10, {"c": 3.0})

    assert [states.before(batch) for batch in (3, 4, 9, 10, 11)] == [{}, {"a": 1.0}, {"a": 1.0}, {"b": 2.0}, {"c": 3.0}]


def test_states_that_no_batch_can_need_any_more_are_forgotten(tmp_path: Path) -> None:
    notes = notes_in(str(tmp_path))
    for batch in range(STATES_KEPT + 5):
        QuietNotes(notes).keep(batch, {})

    assert len(notes.names()) == STATES_KEPT
    assert Rule(name="a", threshold=1, window=1).cooldown_seconds == 0
