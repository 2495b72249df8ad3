"""The start of a message manager (rule 16): from the newest snapshot to its claim of the next epoch.

    snapshot ──restored──▶ ... entries ... ──replayed──▶ tail ──▶ ... entries of meanwhile ... ──▶ own claim ──▶ primary

The tail is the last entry that was durable when the start began. Events are accepted meanwhile. `StartOrder` knows what is
delivered first (A7): events that arrived during the start, then what was unfinished before, then what is new.

A backup applies entries for as long as it is one, and has no tail. Its way to being primary begins with `take_over`: the tail is
what is durable then. If another node's claim comes first, it goes on as a backup.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from holdfast.channel.channel import Channel, Entry, Purpose, Receipt
from holdfast.destination import command, effect
from holdfast.destination.directory import Directory
from holdfast.destination.state.producers import WINDOW, Producer
from holdfast.errors import HoldfastError, OutcomeUnknown, Refused, Unavailable
from holdfast.event.position import Ranges

log = logging.getLogger("holdfast.message_manager")

# May still append what was recorded before this node existed (A7).
BeforeClaim = Callable[[Channel], Awaitable[None]]

# When a claim finds no room, it is tried again after this.
CLAIM_AGAIN_S = 0.5
# The tail of a backup: no entry reaches it.
NO_TAIL = sys.maxsize


class Backup(NamedTuple):
    """The process that has a copy of a message manager: its node, and its start id, which is another one each time."""

    node: str
    start: str


class Start:
    def __init__(
        self, name: str, channel: Channel, directory: Directory, snapshot_at: int, backup: Backup | None = None
    ) -> None:  # fmt: skip
        """`backup` is whose copy it is, where several nodes follow the channel; None for the only one, which is to be primary."""
        self.name = name
        self.channel = channel
        self.directory = directory
        self.snapshot_at = snapshot_at
        self.replayed = channel.durable - snapshot_at  # entries from before this start that are applied again
        self.claimed = asyncio.Event()  # the own claim is applied
        self.is_backup = backup is not None
        self._claimant = backup or Backup(name, "")
        self._wait_for_tail(NO_TAIL if backup else channel.durable)

    def _wait_for_tail(self, tail: int) -> None:
        self.tail = tail
        self._order = StartOrder()
        self._replayed = asyncio.Event()
        if self.directory.applied >= tail:
            self._reach_tail()

    @classmethod
    async def restore(cls, name: str, channel: Channel, backup: Backup | None = None) -> Start:
        """Begin with the directory of the newest snapshot; the entries after it are to be applied to it."""
        snapshot = await channel.load_snapshot()
        if snapshot is not None:
            with _without_garbage_collection():
                return cls(name, channel, Directory.restore(snapshot.chunks), snapshot.at, backup)
        if channel.first > 1:
            raise Refused(
                f"the channel begins at entry {channel.first} and has no snapshot of what came before; restore a backup"
            )
        return cls(name, channel, Directory(), 0, backup)

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
        """Run `before_claim`, then claim the next epoch. Events that cannot be imported stay where they are, and do not keep the
        node from delivering."""
        if before_claim is not None:
            try:
                await before_claim(self.channel)
            except HoldfastError as problem:
                log.error("not all events recorded before the start could be taken: %s", problem)
            except Exception as problem:  # a fault of ours
                log.critical("events recorded before the start could not be taken", exc_info=problem)
        await self._replayed.wait()
        while not self.claimed.is_set():
            try:
                await self._claim()
                return
            except (Unavailable, OutcomeUnknown) as problem:
                log.error("message manager %s cannot claim yet: %s", self.name, problem)
                await asyncio.sleep(CLAIM_AGAIN_S)

    async def _claim(self) -> Receipt:
        claim = command.Claim(epoch=self.directory.epoch + 1, node=self._claimant.node, start=self._claimant.start)
        return await self.channel.append(command.encode(claim), Purpose.UPKEEP)

    async def take_over(self, until_applied: Callable[[int], Awaitable[None]]) -> None:
        """Claim the next epoch for a backup, after all that is durable now. `claimed` says whether its claim was the first."""
        epoch = self.directory.epoch
        self._wait_for_tail(self.channel.durable)
        await self._replayed.wait()
        if self.directory.epoch == epoch:  # nobody else was first
            await until_applied((await self._claim()).entry)
        if not self.claimed.is_set():
            self._wait_for_tail(NO_TAIL)

    async def until_claimed(self) -> None:
        await self.claimed.wait()

    def is_own(self, claimed: effect.Claimed, entry: int) -> bool:
        """Whether a claim is of this start, not of an earlier one or another node."""
        return (claimed.node, claimed.start) == self._claimant and entry > self.tail

    def early(self) -> dict[effect.BacklogKey, Ranges]:
        """The events that arrived during the start and are delivered before all others, by backlog."""
        return self._order.early()


class StartOrder:
    """Knows what is delivered first after a start: the batches between the tail and the own claim, a boot Recorder's among them.

    One exception (rule 14): a producer's own sequence is never broken. The batches of a producer that may have something
    unfinished from before the start keep their place.
    """

    def __init__(self) -> None:
        self._early: dict[effect.BacklogKey, list[tuple[int, int]]] = {}
        self._unfinished: frozenset[str] = frozenset()

    def reached_tail(self, directory: Directory) -> None:
        """Everything from before the start is applied: remember whose events are unfinished."""
        # By original number: a batch that was carried is as old as it was.
        entries = [backlog.oldest_entry() for backlog in directory.catalog.filled_backlogs()] + list(directory.bodies.carried)
        oldest = min((entry for entry in entries if entry is not None), default=0)
        needed = directory.catalog.needed_among(entry for producer in directory.producers for _, entry in producer.recent)
        self._unfinished = frozenset(
            producer.identifier for producer in directory.producers if _may_have_unfinished(producer, needed, oldest)
        )

    def note(self, entry: Entry, effects: Sequence[effect.Effect]) -> None:
        """An entry that arrived during the start was applied."""
        if command.kind_of(entry.command) != command.BatchCommand.KIND:
            return
        batch, _ = command.decode(entry.command)
        assert isinstance(batch, command.BatchCommand)
        if batch.producer in self._unfinished:
            return
        for each in effects:
            if isinstance(each, effect.Placed):
                self._early.setdefault(each.backlog, []).append((each.first, each.first + each.events - 1))

    def early(self) -> dict[effect.BacklogKey, Ranges]:
        """The events that are delivered before all others, by backlog."""
        return {key: Ranges.gather(ranges) for key, ranges in self._early.items()}


def _may_have_unfinished(producer: Producer, needed: frozenset[int], oldest: int) -> bool:
    """Only the newest batches of a producer are known one by one; older ones may be unfinished if anything that old is needed."""
    entries = [entry for _, entry in producer.recent]
    if any(entry in needed for entry in entries):
        return True
    return len(entries) == WINDOW and 0 < oldest < min(entries)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Restore without collecting garbage: to search the growing state again and again takes longer than to restore it.

    Afterwards the state counts as old; where a server has frozen what was loaded before, the state is frozen too."""
    was_enabled, was_frozen = gc.isenabled(), gc.get_freeze_count() > 0
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if not was_frozen:
            gc.unfreeze()  # into the oldest generation, without a search
        if was_enabled:
            gc.enable()
