"""Forgetting producers whose sessions are gone: the primary says so, when `cluster.ended_producers` finds it safe.

    now and then ──▶ which have ended, which snapshot is safe? ──▶ due ──▶ ForgetProducer, with the entry that ended it

Without it, a state would keep the sequence of every producer that ever was. A single server has none to forget: there a producer
goes with its session.
"""

from __future__ import annotations

import asyncio
import logging

from holdfast.channel.channel import Purpose
from holdfast.cluster.ended_producers import EndedProducers
from holdfast.destination import command
from holdfast.node import supervision
from holdfast.node.messages.message_manager import MessageManager

log = logging.getLogger("holdfast.upkeep")

# Commands that are appended at a time; the rest follows with the next look.
FORGOTTEN_A_LOOK = 2_000


class ProducerForgetting:
    """One for each time that a node leads."""

    def __init__(self, manager: MessageManager) -> None:
        self._manager = manager
        self._epoch = manager.directory.epoch
        self._ended = EndedProducers()
        self._snapshot_at = manager.upkeep.snapshot_at
        self._forgetting: asyncio.Task[None] | None = None

    def look(self, now_ms: int) -> None:
        """Forget those that are due, unless others are being forgotten."""
        self._ended.note(self._manager.directory.producers.ended(), now_ms)
        if self._snapshot_at < self._manager.upkeep.snapshot_at:
            self._snapshot_at = self._manager.upkeep.snapshot_at
            self._ended.snapshot_saved(self._snapshot_at)
        due = self._ended.due(now_ms)[:FORGOTTEN_A_LOOK]
        if due and (self._forgetting is None or self._forgetting.done()):
            self._forgetting = supervision.start(self._forget(due), "forgetting producers")

    async def _forget(self, due: list[tuple[str, int]]) -> None:
        """Append the commands, and wait until they are applied: those that were not are due again."""
        forgets = [command.ForgetProducer(producer, epoch=self._epoch, ended_at=at) for producer, at in due]
        appended = [self._manager.channel.append(command.encode(each), Purpose.UPKEEP) for each in forgets]
        answers = await asyncio.gather(*appended, return_exceptions=True)
        if problems := [each for each in answers if isinstance(each, BaseException)]:
            log.warning(
                "%d of %d producers whose sessions are gone are forgotten later: %s", len(problems), len(due), problems[0]
            )
        await self._manager.until_applied(max((each.entry for each in answers if not isinstance(each, BaseException)), default=0))

    def stop(self) -> None:
        if self._forgetting is not None:
            self._forgetting.cancel()
