"""`send`: make an event of the alert, for another queue or topic.

    do = "send"
    topic = "incidents.{severity}"       # or: queue = "tickets"
    type = "incident.opened"
    subject = "{key}"
    properties = { host = "{host}" }
    text = "{summary}"                   # without it, the data is the alert

The event and the confirm of the alert are one transaction: it is there once, whatever is killed when.

Events that rules send carry `holdfast_hops`, how many rules they came through. An alert whose events have come through `hops_max`
rules (8 if not said) is not sent on: it goes to the dead events. So a rule that feeds itself, alone or through others, ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.actions.alert import Alert
from holdfast.actions.errors import ActionRefused
from holdfast.actions.kinds.action import Action, Complaint
from holdfast.actions.machines.seen import HOPS
from holdfast.destination import name as names
from holdfast.errors import HoldfastError
from holdfast.event.event import Event, is_property_name


class Outgoing(NamedTuple):
    """An event that is sent in the transaction that confirms the alert."""

    destination: str
    is_topic: bool
    event: Event


class Send(Action):
    class Settings(msgspec.Struct, kw_only=True):
        topic: str = ""
        queue: str = ""
        type: str = "holdfast.alert"
        subject: str = ""
        text: str = ""
        properties: dict[str, str] = {}
        priority: int = 4

    settings: Settings
    TEMPLATES = ("topic", "queue", "type", "subject", "text", "properties")

    @classmethod
    def complaints(cls, settings: Any) -> Iterator[Complaint]:
        if bool(settings.topic) == bool(settings.queue):
            yield "", "name the topic to send to, or the queue, and one of them only"
        named = settings.topic or settings.queue
        if named and "{" not in named:
            try:
                names.check_destination(named)
            except HoldfastError as problem:
                yield "topic" if settings.topic else "queue", problem.sentence
        if not 0 <= settings.priority <= 9:
            yield "priority", "a priority is a number from 0 to 9"
        for name in settings.properties:
            if not is_property_name(name) or name == HOPS:
                yield "properties", f"{name!r:.40} is no name of a property that can be set"

    def outgoing(self, alert: Alert, hops_max: int) -> Outgoing:
        """The event. ActionRefused past the hop limit, or where the alert makes an impossible name."""
        if alert.hops >= hops_max:
            raise ActionRefused(
                f"its events have come through {alert.hops} rules already (hops_max = {hops_max}): rules feed each other"
            )
        settings = self.settings
        destination = self.filled("topic" if settings.topic else "queue", alert)
        try:
            names.check_destination(destination)
        except HoldfastError as problem:
            raise ActionRefused(problem.sentence) from problem
        properties: dict[str, Any] = {name: alert.fill_text(text) for name, text in settings.properties.items()} | {
            "rule": alert.rule,
            "severity": alert.severity,
            HOPS: alert.hops + 1,
        }
        event = Event(
            data=self.filled("text", alert) if settings.text else msgspec.to_builtins(alert),
            type=self.filled("type", alert) or "holdfast.alert",
            subject=self.filled("subject", alert) or None,
            id=f"{alert.id}-{alert.action}",
            source=f"actions/{alert.program}",
            properties=properties,
            priority=settings.priority,
        )
        return Outgoing(destination, bool(settings.topic), event)

    def do(self, alerts: Sequence[Alert]) -> None:
        raise AssertionError("it is sent in the transaction that confirms the alert")

    def describe(self, alert: Alert) -> str:
        made = self.outgoing(alert, 1 << 30)
        kind = "topic" if made.is_topic else "queue"
        return f"send to {kind} {made.destination!r}, type {made.event.type!r}: {msgspec.json.encode(made.event.data).decode()}"
