"""The places that are away and lag too far: what waits for them fills the journal, so a current place gives it up.

    away       nobody receives what waits for it, and it answers no roll call
    too far    past `lag_max` of the definition: in writes, bytes or seconds, as `limits.lag_watch` counts them
    spared     fewer than `places_min` others are current: they alone would not be what a write was promised

Only its subscription goes. Its mark stays, so that `store status` tells it as dropped. When it comes back it finds no
subscription, and copies what has changed since (ADR 18): nothing is lost, and nothing of it is trusted before.

Several places may look at once: a subscription goes once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from holdfast.client.client import Client
from holdfast.client.description import SubscriptionDescription
from holdfast.continuity.limits.lag_watch import LagWatch, beyond
from holdfast.continuity.storage.definition import PLACES, Definition, subscription_of
from holdfast.continuity.storage.places import Places

log = logging.getLogger("holdfast.continuity")


class LaggingPlaces:
    def __init__(self, client: Client, definition: Definition, place: str, places: Places) -> None:
        """`place`: the one that looks."""
        self._client, self._definition, self._place, self._places = client, definition, place, places
        self._watch = LagWatch()

    async def check(
        self, found: Sequence[SubscriptionDescription], number: int, bytes_passed: int, now: float
    ) -> None:  # fmt: skip
        """Drop who lags too far, by the subscriptions that were found. `number`: of the newest write, and the bytes up to it."""
        self._watch.note(number, now, bytes_passed)
        for each in found:
            name = each["name"].removeprefix(PLACES)
            if name in (each["name"], self._place) or each["receivers"]:
                continue
            reason = beyond(self._watch.lag(number - each["waiting"], now), self._definition.lag_max)
            if reason and self._can_spare(name):
                await self._drop(name, reason)

    def _can_spare(self, name: str) -> bool:
        is_away = all(each.name != name for each in self._places.reachable(besides=self._place))
        return is_away and len(self._places.current(besides=name)) >= self._definition.places_min

    async def _drop(self, name: str, reason: str) -> None:
        definition = self._definition
        if await self._client.delete_subscription(definition.writes, subscription_of(name), force=True, missing_ok=True):
            log.warning("place %s of %s is dropped: %s; if it comes back, it copies", name, definition.name, reason)
