"""A dry run: which rules would count these events, why, and what would be done. Nothing is sent, and no server is needed.

    {"topic": "metrics.disk.root", "type": "disk", "properties": {"host": "web-1", "percent": 97}, "at": "2026-01-01T12:00:00Z"}

An event without a time comes a second after the one before it. The machines are those of the running program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.actions.alert import Alert, alert_of, time_text
from holdfast.actions.kinds.action import Surroundings
from holdfast.actions.machines.rule_machine import RuleMachine, Told
from holdfast.actions.machines.seen import Seen, field_of_event, key_of
from holdfast.actions.machines.sharing import type_condition
from holdfast.actions.rule import CheckedRule
from holdfast.actions.rules_file import RuleSet
from holdfast.actions.running.event_view import Matcher
from holdfast.errors import BadEvent
from holdfast.event.event import Event, encode_head, to_head_and_body, to_microseconds

BEGIN_US = 1_767_225_600_000_000  # 2026-01-01, where no event has a time
STEP_US = 1_000_000
_FIELDS = ("topic", "queue", "at", "type", "source", "id", "subject", "properties", "data", "group", "priority")


class Outcome(msgspec.Struct, kw_only=True):
    """What one rule made of one event, or of time that passed (`event` is 0)."""

    event: int
    rule: str
    is_counted: bool
    why: str
    alerts: list[dict[str, Any]] = []


def dry_run(rule_set: RuleSet, given: Sequence[Mapping[str, Any]], later_us: int = 0) -> list[Outcome]:
    """Show these events to the rules, one after the other; then let so much time pass."""
    seen = list(_events(given))
    begin_us = seen[0][0].at_us if seen else BEGIN_US
    surroundings = Surroundings(rule_set.name, rule_set.folder, rule_set.secrets)
    outcomes: list[Outcome] = []
    tried = [_Tried(rule, surroundings, begin_us) for rule in rule_set.rules.values()]
    for number, (event, head) in enumerate(seen, 1):
        outcomes += [each.event(number, event, head) for each in tried]
    last_us = seen[-1][0].at_us if seen else BEGIN_US
    outcomes += [outcome for each in tried if (outcome := each.later(last_us + later_us)) is not None]
    return outcomes


class _Tried:
    """A rule in a dry run."""

    def __init__(self, rule: CheckedRule, surroundings: Surroundings, begin_us: int) -> None:
        self._rule, self._surroundings = rule, surroundings
        selector = " AND ".join(f"({each})" for each in (type_condition(rule.type), rule.selector) if each)
        self._matcher = Matcher(rule.topics, rule.queue, selector)
        self._of_type = Matcher((), "", type_condition(rule.type))
        self._machine = RuleMachine(rule.terms, begin_us)

    def event(self, number: int, event: Seen, head: bytes) -> Outcome:
        rule = self._rule
        refusal = self._refusal(event, head)
        if refusal:
            return Outcome(event=number, rule=rule.name, is_counted=False, why=refusal)
        told = self._machine.event(event)
        key = key_of(field_of_event(event, rule.terms.key)) if rule.terms.key else ""
        of_key = f"for {rule.terms.key} {key!r}: " if rule.terms.key else ""
        why = told[-1].due.reason if told else self._machine.progress(key)
        if not told and (waiting := self._machine.wake_us) is not None:
            why += f"; something is due at {time_text(waiting)}"
        return Outcome(event=number, rule=rule.name, is_counted=True, why=of_key + why, alerts=self._done(told))

    def _refusal(self, event: Seen, head: bytes) -> str:
        """Why the rule does not count an event; "" if it does."""
        rule = self._rule
        if not self._matcher.is_of_destination(event.destination):
            return f"{event.destination!r} is none of its topics ({', '.join(rule.topics) or rule.queue})"
        if not self._of_type.is_selected(head, event.source, event.priority):
            return f"its type {event.type!r} is not {rule.type!r}"
        if not self._matcher.is_selected(head, event.source, event.priority):
            return f"the selector is not true: {rule.selector}"
        return ""

    def later(self, at_us: int) -> Outcome | None:
        told = self._machine.advance(at_us)
        if not told:
            return None
        why = f"by {time_text(at_us)}: {told[-1].due.reason}"
        return Outcome(event=0, rule=self._rule.name, is_counted=False, why=why, alerts=self._done(told))

    def _done(self, told: Iterable[Told]) -> list[dict[str, Any]]:
        rule = self._rule
        alerts = [alert_of(each, self._surroundings.program, rule.name, rule.severity, rule.summary) for each in told]
        return [{"id": alert.id, "summary": alert.summary, "at": alert.at, "actions": self._actions(alert)} for alert in alerts]

    def _actions(self, alert: Alert) -> list[dict[str, str]]:
        made = []
        for action in self._rule.actions:
            would = action.make(self._surroundings).describe(msgspec.structs.replace(alert, action=action.name))
            made.append({"action": action.name, "kind": action.kind, "would": self._surroundings.secrets.redact(would)})
        return made


def _events(given: Sequence[Mapping[str, Any]]) -> Iterable[tuple[Seen, bytes]]:
    at_us = BEGIN_US - STEP_US
    for number, fields in enumerate(given, 1):
        if not isinstance(fields, Mapping):
            raise BadEvent(f'event {number} is no object; write it like {{"topic": "metrics", "properties": {{}}}}')
        for name in fields:
            if name not in _FIELDS:
                raise BadEvent(f"event {number} has the unknown field {name!r:.40}; there are {', '.join(_FIELDS)}")
        destination = fields.get("topic") or fields.get("queue")
        if not isinstance(destination, str):
            raise BadEvent(f"event {number} names neither topic nor queue; say where it is sent")
        at_us = max(at_us, _time_us(fields["at"], number)) if "at" in fields else at_us + STEP_US
        event = _event(fields, number)
        head, _ = to_head_and_body(event, at_us)
        yield Seen(
            at_us=at_us, position=number, id=event.id or f"event-{number}", source=event.source or "dry-run", type=event.type,
            subject=event.subject, time=time_text(at_us), destination=destination, priority=event.priority, group=event.group,
            properties=event.properties or {}, data=event.data,
        ), encode_head(head)  # fmt: skip


def _event(fields: Mapping[str, Any], number: int) -> Event:
    own = {name: value for name, value in fields.items() if name not in ("topic", "queue", "at")}
    try:
        return msgspec.convert({"id": f"event-{number}", "source": "dry-run", **own}, Event)
    except msgspec.ValidationError as problem:
        raise BadEvent(f"event {number} is not as an event should be: {problem}") from problem


def _time_us(given: Any, number: int) -> int:
    if isinstance(given, int | float) and not isinstance(given, bool):
        return BEGIN_US + round(given * 1_000_000)
    try:
        moment = datetime.fromisoformat(given)
    except (TypeError, ValueError) as problem:
        raise BadEvent(f"event {number} has no time {given!r:.40}; write ISO 8601, or seconds from the first") from problem
    return to_microseconds(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
