"""The start of a message manager (rule 16): from the newest snapshot to its claim of the next epoch.

    snapshot ──restored──▶ ... entries ... ──replayed──▶ tail ──▶ ... entries of meanwhile ... ──▶ own claim ──▶ primary

The tail is the last entry that was durable when the start began. Events are accepted meanwhile; those of producers that appeared
during the start are delivered first, then what was unfinished before (A7), then what is new: `start_order` knows which is which.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from holdfast.channel.channel import Channel, Entry, Purpose
from holdfast.destination import command, effect
from holdfast.destination.directory import Directory
from holdfast.errors import HoldfastError, OutcomeUnknown, Refused, Unavailable
from holdfast.event.position import Ranges
from holdfast.node.start_order import StartOrder

log = logging.getLogger("holdfast.message_manager")

BeforeClaim = Callable[[], Awaitable[None]]

# When a claim finds no room, it is tried again after this.
CLAIM_AGAIN_S = 0.5


class Starting:
    def __init__(self, name: str, channel: Channel) -> None:
        self.directory = Directory()
        self.tail = 0
        self.snapshot_at = 0
        self.claimed = asyncio.Event()  # the own claim is applied
        self._name = name
        self._channel = channel
        self._order = StartOrder()
        self._replayed = asyncio.Event()

    async def restore(self) -> None:
        """The directory is as of the newest snapshot then; what comes after it is applied to it."""
        snapshot = await self._channel.load_snapshot()
        if snapshot is not None:
            self.directory = Directory.restore(snapshot.chunks)
            self.snapshot_at = snapshot.at
        elif self._channel.first > 1:
            raise Refused(
                f"the channel begins at entry {self._channel.first} and has no snapshot of what came before; restore a backup"
            )
        self.tail = self._channel.durable
        if self.snapshot_at >= self.tail:
            self._reach_tail()

    @property
    def replayed(self) -> int:
        """How many entries from before this start had to be applied again."""
        return self.tail - self.snapshot_at

    def applied(self, entry: Entry, effects: Sequence[effect.Effect]) -> None:
        """The tail, or an entry that came after it, was applied."""
        if entry.number == self.tail:
            self._reach_tail()
        else:
            self._order.note(entry, effects)

    def _reach_tail(self) -> None:
        """Everything from before this start is applied."""
        self._order.reached_tail(self.directory)
        self._replayed.set()

    async def claim_when_replayed(self, before_claim: BeforeClaim | None) -> None:
        """Whatever fails here must not keep it from delivering: what could not be imported stays where it is."""
        if before_claim is not None:
            try:
                await before_claim()
            except HoldfastError as problem:
                log.error("not everything that was recorded before the start could be taken: %s", problem)
            except Exception as problem:  # a fault of ours: it must not keep what is here from being delivered
                log.critical("what was recorded before the start could not be taken", exc_info=problem)
        await self._replayed.wait()
        while not self.claimed.is_set():
            claim = command.Claim(epoch=self.directory.epoch + 1, node=self._name)
            try:
                await self._channel.append(command.encode(claim), Purpose.UPKEEP)
                return
            except (Unavailable, OutcomeUnknown) as problem:
                log.error("message manager %s cannot claim yet: %s", self._name, problem)
                await asyncio.sleep(CLAIM_AGAIN_S)

    def is_own(self, claimed: effect.Claimed, entry: int) -> bool:
        """Whether a claim is of this start, not an earlier life's or another's."""
        return claimed.node == self._name and entry > self.tail

    def early(self) -> dict[effect.BacklogKey, Ranges]:
        """What arrived during the start and goes before everything else, by backlog."""
        return self._order.early()
