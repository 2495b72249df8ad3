"""Giving up: on events that can no longer be delivered, and on sessions that did not come back.

    events  ──▶ `Dead`: they go to the dead queue, with the reason
    session ──▶ `Release` of what it holds, then `Detach`: that goes to others

Each is a command, and so counts when it is applied, here and at a backup. Where there is no room for it, it is tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from holdfast.channel.channel import Channel, Purpose, Receipt
from holdfast.destination import command, effect
from holdfast.destination.delivery import Delivery
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.event.position import Ranges
from holdfast.node.clock import Clock
from holdfast.node.roster import Roster

log = logging.getLogger("holdfast.deliverer")

BacklogKey = effect.BacklogKey

# What finds no room is tried again after this.
AGAIN_MS = 1_000


class GivingUp:
    def __init__(self, channel: Channel, clock: Clock, deliveries: Mapping[BacklogKey, Delivery], roster: Roster) -> None:
        self.epoch = 0
        self._channel = channel
        self._clock = clock
        self._deliveries = deliveries
        self._roster = roster

    async def bury(self, key: BacklogKey, ranges: Ranges, reason: str, code: str) -> None:
        """These go to the dead queue; what finds no room there waits again."""
        if not ranges:
            return
        for part in ranges.portions(command.RANGES_MAX):
            dead = command.Dead(self.epoch, *key, part.to_bytes(), reason, code, self._clock.now_ms())
            try:
                await self._channel.append(command.encode(dead), Purpose.UPKEEP)
            except (Unavailable, OutcomeUnknown) as problem:
                log.error("%s: %s", key, problem)
                if key in self._deliveries:
                    self._deliveries[key].returned(part, self._clock.now_ms() + AGAIN_MS)

    def on_session(self, session: str) -> None:
        """It did not come back: what it was handed counts as delivered (rule 5), and goes to others (rule 4)."""
        for holder, key in self._roster.of_session(session):
            if key in self._deliveries:
                for held in self._deliveries[key].held(holder).portions(command.RANGES_MAX):
                    self._issue(command.Release(*key, session, held.to_bytes(), at_ms=self._clock.now_ms()))
        detaching = self._issue(command.Detach(session, at_ms=self._clock.now_ms(), epoch=self.epoch))
        detaching.add_done_callback(lambda done: self._given_up(session, done))

    def _given_up(self, session: str, done: asyncio.Future[Receipt]) -> None:
        """Where there was no room it is tried again: until it is detached, nobody else gets what it holds."""
        problem = None if done.cancelled() else done.exception()
        if isinstance(problem, Unavailable | OutcomeUnknown):
            log.error("session %s cannot be given up yet: %s", session, problem)
            self._clock.call_later(AGAIN_MS, lambda: self.on_session(session))

    def _issue(self, issued: command.Command) -> asyncio.Future[Receipt]:
        future = self._channel.append(command.encode(issued), Purpose.UPKEEP)
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        return future
