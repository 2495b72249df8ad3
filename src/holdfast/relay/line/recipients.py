"""Recipients of a route: who counts, and whether there is anybody at all.

Durable subscriptions, or a queue, count. Where nobody does, a route draws nothing: a topic without subscriptions would finish an
event at once. A subscription that excludes what comes from this upstream, as that of a relay which faces this one, counts for
nothing here.
"""

from __future__ import annotations

from holdfast.client.client import Client
from holdfast.client.description import SubscriptionDescription
from holdfast.errors import BadPattern
from holdfast.event.pattern import Pattern, can_meet
from holdfast.relay.definition import Route


def excluding(selector: str, origin: int) -> str:
    """A selector that also leaves out events of this origin; 0 for none."""
    if not origin:
        return selector
    own = exclusion_of(origin)
    return f"({selector}) AND {own}" if selector else own


def exclusion_of(origin: int) -> str:
    return f"(holdfast_origin IS NULL OR holdfast_origin <> {origin})"


class Recipients:
    def __init__(self, local: Client, route: Route, origin: int) -> None:
        """`origin`: of events that come from this upstream, as a selector sees it."""
        self._local = local
        self._route = route
        self._exclusion = exclusion_of(origin)

    async def prepare(self) -> None:
        """Make the queue, where it is one: it takes events before anybody receives."""
        route = self._route
        if route.kind == "queue" and route.renaming().is_one:
            await self._local.ensure_queue(route.to)

    async def are_there(self) -> bool:
        if self._route.kind == "queue":
            return True
        found = await self._local.subscriptions()
        return any(self._counts(each) for each in found)

    def _counts(self, each: SubscriptionDescription) -> bool:
        if not each.get("is_durable") or self._exclusion in (each.get("selector") or ""):
            return False
        pattern = each.get("pattern")
        targets = self._route.to or self._route.source
        if self._route.regex and not self._route.to:
            return pattern is not None or Pattern.regex(targets).matches(each.get("topic") or "")
        if pattern is None:
            return _matches(targets, each.get("topic") or "")
        if each.get("match") == "regex":
            return Pattern.regex(pattern).matches(targets) if _is_name(targets) else True
        return can_meet(targets, pattern)


def _is_name(text: str) -> bool:
    return Pattern.glob(text).is_literal


def _matches(targets: str, topic: str) -> bool:
    try:
        return Pattern.glob(targets).matches(topic)
    except BadPattern:
        return False
