"""An alert: what a rule tells an action. It waits in the action's queue as an event of the type `holdfast.alert`.

id             the same for the same alert, however often it is done: the idempotency key is made of it
properties     rule, severity, action; and the hops of the events that it tells of
data           {"rule": …, "severity": …, "at": …, "reason": …, "count": …, "keys": […], "events": [{…}], …}
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from holdfast.actions.machines.rule_machine import Told
from holdfast.actions.machines.template import Template

TYPE = "holdfast.alert"
SUMMARY = Template("{rule}: {reason}")
# A summary that is longer is cut, so that an alert fits an event, whatever its template repeats.
SUMMARY_LENGTH_MAX = 10_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Alert(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One alert. `events` are examples: the newest last. `count` is how many events it tells of."""

    id: str
    rule: str
    severity: str = "warning"
    at: str  # when it became due, by the time of acceptance; ISO 8601, UTC
    reason: str = ""
    summary: str = ""
    group: str = ""
    keys: list[str] = []
    count: int = 0
    suppressed: int = 0  # how many more were not told because of the cooldown or quiet hours before it
    hops: int = 0
    events: list[dict[str, Any]] = []
    program: str = ""
    action: str = ""
    is_repeated: bool = False  # it was handed to the action before

    @property
    def key(self) -> str:
        """The first key, "" if the rule has none."""
        return self.keys[0] if self.keys else ""

    @property
    def example(self) -> dict[str, Any]:
        """The newest event it tells of; empty for an absence."""
        return self.events[-1] if self.events else {}

    @property
    def idempotency_key(self) -> str:
        """The same each time this action is done for this alert, and for nothing else."""
        return f"{self.program}/{self.rule}/{self.action}/{self.id}"

    def fields(self) -> dict[str, Any]:
        """The fields of an alert, for templates."""
        return {
            "summary": self.summary, "rule": self.rule, "severity": self.severity, "reason": self.reason, "key": self.key,
            "keys": self.keys, "group": self.group, "count": self.count, "suppressed": self.suppressed, "at": self.at,
            "id": self.id,
        }  # fmt: skip

    def fill(self, template: Template) -> str:
        return template.fill(self.fields(), self.example)

    def fill_text(self, text: str) -> str:
        """A text that is a template, filled in."""
        return self.fill(Template(text))


def alert_of(told: Told, program: str, rule: str, severity: str, summary: Template) -> Alert:
    due = told.due
    alert = Alert(
        id=told.id, rule=rule, severity=severity, at=time_text(due.at_us), reason=due.reason, group=told.group, keys=due.keys,
        count=due.count, suppressed=due.suppressed, hops=due.hops, events=due.examples, program=program,
    )  # fmt: skip
    return msgspec.structs.replace(alert, summary=_cut(alert.fill(summary)))


def _cut(text: str) -> str:
    return text if len(text) <= SUMMARY_LENGTH_MAX else f"{text[:SUMMARY_LENGTH_MAX]}…"


def time_text(at_us: int) -> str:
    try:
        return (_EPOCH + timedelta(microseconds=at_us)).isoformat()
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC).isoformat()
