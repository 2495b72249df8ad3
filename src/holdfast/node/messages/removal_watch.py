"""The removal watch: finds subscriptions that have passed a limit of their terms, and has them removed. Only a primary does it.

    placed ─▶ touched ─▶ more events, or bytes, than may wait? ─┐
    timer  ─▶ accepted when? has the oldest waited too long?  ──┴─▶ `Remove` ─▶ applied, if it is still so

Time is measured here, never in a machine (rule 13): the command names the event that has waited too long. The time at which an
event was accepted stands in the channel, so one event of a subscription is read, and then none until the limit can be passed
again. Subscriptions without limits cost nothing here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from holdfast.channel.channel import Channel, Purpose
from holdfast.destination import command
from holdfast.destination.backlog.bodies import body_in
from holdfast.destination.directory import Directory
from holdfast.destination.effect import BacklogKey
from holdfast.destination.state.subscription import Subscription
from holdfast.errors import Closed, HoldfastError
from holdfast.node import supervision
from holdfast.node.clock import Clock

log = logging.getLogger("holdfast.removal")

# How often ages are checked: four times within the shortest limit, between these two.
CHECK_MS_MIN = 50
CHECK_MS_MAX = 1_000


class RemovalWatch:
    def __init__(
        self, directory: Directory, channel: Channel, clock: Clock, until_applied: Callable[[int], Awaitable[None]]
    ) -> None:
        self._directory = directory
        self._channel = channel
        self._clock = clock
        self._until_applied = until_applied
        self._limited = directory.catalog.limited
        self._epoch = 0
        self._touched: dict[BacklogKey, None] = {}
        # No event of a subscription, as it was made and with this limit, can have waited too long before this time.
        self._young_until_ms: dict[tuple[BacklogKey, int, int], int] = {}
        self._first_seen: dict[BacklogKey, tuple[int, int]] = {}  # events of which nobody wrote down when they were accepted
        self._removing: dict[BacklogKey, asyncio.Task[None]] = {}
        self._aging: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, epoch: int) -> None:
        """This node is primary: check every subscription that has limits."""
        self._epoch = epoch
        self._touched = dict.fromkeys(self._limited)

    @property
    def is_watching(self) -> bool:
        """There is a subscription with limits."""
        return bool(self._limited)

    def touched(self, key: BacklogKey) -> None:
        """Something was placed in a backlog."""
        if key in self._limited:
            self._touched[key] = None

    def check(self) -> None:
        """Have those removed that were touched and have passed a limit; see to it that ages are checked."""
        touched, self._touched = self._touched, {}
        for key in touched:
            found = self._limited.get(key)
            if found is not None and found.limit_passed():
                self._remove(found)
        if self._timer is None:
            self._set_timer()

    # --- ages --------------------------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        ages = [found.terms.limits.age_ms for found in self._limited.values() if found.terms.limits.age_ms]
        if ages:
            delay_ms = min(max(min(ages) // 4, CHECK_MS_MIN), CHECK_MS_MAX)
            self._timer = self._clock.call_later(delay_ms, self._check_ages)

    def _check_ages(self) -> None:
        self._timer = None
        self._set_timer()
        self._young_until_ms = {key: at_ms for key, at_ms in self._young_until_ms.items() if key[0] in self._limited}
        self._first_seen = {key: seen for key, seen in self._first_seen.items() if key in self._limited}
        if self._aging is None or self._aging.done():
            self._aging = supervision.start(self._find_too_old(), "looking for events that have waited too long")

    async def _find_too_old(self) -> None:
        for key, found in list(self._limited.items()):
            age_ms, now_ms = found.terms.limits.age_ms, self._clock.now_ms()
            young = (key, found.made_at, age_ms)
            if not age_ms or self._young_until_ms.get(young, 0) > now_ms:
                continue
            oldest = found.backlog.first_waiting_entry() if found.backlog.waiting else 0
            accepted_ms = await self._accepted_ms(key, oldest) if oldest else now_ms
            if accepted_ms is None:
                continue
            if accepted_ms + age_ms > now_ms:
                self._young_until_ms[young] = min(accepted_ms, now_ms) + age_ms
            elif self._limited.get(key) is found:
                self._remove(found, oldest)

    async def _accepted_ms(self, key: BacklogKey, entry: int) -> int | None:
        """When the batch of an entry was accepted; where nobody wrote that down, when it was first seen here. None when it is
        gone."""
        now_ms = self._clock.now_ms()
        try:
            (data,) = await self._channel.fetch([self._directory.locate(entry)])
        except HoldfastError:  # finished, and released, meanwhile
            return None
        accepted_us = body_in(data, entry).accepted_us
        if accepted_us:
            return accepted_us // 1000
        seen = self._first_seen.get(key)
        if seen is None or seen[0] != entry:
            seen = self._first_seen[key] = entry, now_ms
        return seen[1]

    # --- removing ----------------------------------------------------------------------------------------------------

    def _remove(self, found: Subscription, oldest: int = 0) -> None:
        key = found.key
        if key not in self._removing:
            made = command.Remove(self._epoch, *key, found.made_at, oldest)
            self._removing[key] = task = supervision.start(self._append(made), f"removing {found.title}")
            task.add_done_callback(lambda _: self._removing.pop(key, None))

    async def _append(self, made: command.Remove) -> None:
        """Return when it is applied. Where it finds no room, the next event that is placed, or the next check, tries again."""
        try:
            receipt = await self._channel.append(command.encode(made), Purpose.UPKEEP)
        except Closed:
            return
        except HoldfastError as problem:
            log.error("subscription '%s' of '%s' cannot be removed yet: %s", made.name, made.topic, problem)
            return
        await self._until_applied(receipt.entry)

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        tasks = [*self._removing.values(), *([self._aging] if self._aging is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
