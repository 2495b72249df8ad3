"""A rule: which events, a condition over time, and what is done when it holds.

    Rule(
        "disk-full",
        topics=["metrics.disk.*"], selector="percent > 90", key="host",
        count=3, within="5m",
        gather="30s", cooldown="1h",
        actions=[{"do": "notify", "to": ["mailto://…"]}],
    )

The names of the settings are those of the rules file; `docs/actions.md` explains each. BadRules lists every mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from holdfast.actions.alert import SUMMARY, Alert
from holdfast.actions.errors import BadRules, Mistake
from holdfast.actions.kinds.action import Action, FunctionAction, Surroundings
from holdfast.actions.machines.condition import Condition
from holdfast.actions.machines.rule_machine import Terms
from holdfast.actions.machines.sharing import Source, source_of
from holdfast.actions.machines.template import Template

Severity = Literal["info", "warning", "error", "critical"]
SEVERITIES = ("info", "warning", "error", "critical")
RETRIES = 8
Duration = str | int | float


class RuleSettings(msgspec.Struct, kw_only=True, rename={"before": "from", "after": "to"}):
    """The settings of a rule, as they are written."""

    topics: list[str] = []
    queue: str = ""
    type: str = ""
    selector: str = ""
    key: str = ""
    count: int = 0
    within: Duration = 0
    absent: Duration = 0
    expect: list[str] = []
    change: str = ""
    before: list[Any] = []
    after: list[Any] = []
    silence: Duration = 0
    group: str = ""
    gather: Duration = 0
    cooldown: Duration = 0
    severity: Severity = "warning"
    quiet: list[str] = []
    zone: str = ""
    quiet_then: Literal["hold", "drop"] = "hold"
    quiet_below: Severity = "critical"
    summary: str = SUMMARY.text
    examples: int = 3
    keys_max: int = 10_000
    hops_max: int = 8
    actions: list[Any] = []


class ActionTerms(msgspec.Struct, kw_only=True):
    """The settings that every action has."""

    do: str
    name: str = ""
    retries: int = RETRIES
    backoff: Duration = 1
    backoff_max: Duration = 300


class RuleAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action of a rule, checked: its kind, its settings with secrets, and how often it is tried."""

    name: str
    kind: str
    cls: type[Action] | None = None
    settings: Any = None
    function: Callable[[Alert], object] | None = None
    retries: int = RETRIES
    first_s: float = 1.0
    longest_s: float = 300.0

    def make(self, surroundings: Surroundings) -> Action:
        if self.function is not None:
            return FunctionAction(self.function, surroundings)
        assert self.cls is not None
        return self.cls(self.settings, surroundings)


class CheckedRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that was checked."""

    name: str
    topics: tuple[str, ...]
    queue: str
    type: str
    selector: str
    severity: str
    summary: Template
    terms: Terms
    actions: tuple[RuleAction, ...]
    hops_max: int

    @property
    def condition(self) -> Condition:
        return self.terms.condition

    def source(self, tick_topic: str) -> Source:
        return source_of(self.topics, self.queue, self.type, self.selector, self.terms.is_timed, tick_topic)


class Rule:
    """One rule of a program. `checked` is what it means."""

    def __init__(self, name: str, **settings: Any) -> None:
        from holdfast.actions.rule_reader import read_rule

        mistakes: list[Mistake] = []
        checked = read_rule(name, settings, mistakes, ("rules", name))
        if checked is None or mistakes:
            raise BadRules(f"rule {name!r}", mistakes)
        self.name = name
        self.checked: CheckedRule = checked

    def __repr__(self) -> str:
        return f"Rule({self.name!r})"


class _AnyField(dict[str, Any]):
    """Has every field."""

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key, "sample")


def sample_alert(rule: str = "sample") -> Alert:
    """An alert on which actions are tried when rules are checked. Its event has every property."""
    event = {
        "type": "sample", "source": "sample", "subject": "sample", "id": "1", "time": "2026-01-01T00:00:00+00:00",
        "destination": "sample", "properties": _AnyField(), "data": _AnyField(),
    }  # fmt: skip
    return Alert(
        id="sample", rule=rule, at="2026-01-01T00:00:00+00:00", reason="sample", summary="sample", group="sample",
        keys=["sample"], count=1, events=[event], program="sample", action="sample",
    )  # fmt: skip
