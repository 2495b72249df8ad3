"""Upkeep: keeps a channel from growing for ever, and replay short. Only a primary does it.

    snapshot    save the directory's state as of an entry, so that replay begins there
    release     free entries that no backlog needs and the snapshot covers (rule 8: a prefix only)
    carry       copy the few unfinished batches of an old, mostly finished stretch forward, so that it can be freed (rule 9)

One round at a time runs in the background: when enough was applied since the last one, and, while space is short, whenever the
oldest stretch may be freed by it. Memory: while a snapshot is being saved, two bytes for each waiting batch; carrying holds a
quarter of a segment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple

from holdfast.channel.channel import COMMAND_BYTES_MAX, Buffer, Channel, Pressure, Purpose, Stretch
from holdfast.destination import command
from holdfast.destination.backlog.bodies import body_in
from holdfast.destination.directory import Directory
from holdfast.errors import Closed, HoldfastError
from holdfast.node import supervision
from holdfast.node.clock import Clock
from holdfast.node.settings import NodeSettings

log = logging.getLogger("holdfast.upkeep")

# A stretch is carried only when less than this part of it is unfinished: copying more would cost more than it frees.
ALIVE_MAX = 0.25
STRETCHES_A_ROUND = 16
CARRIED_COUNT_MAX = 1_500
# Batches that are read at a time to be carried: enough to be quick, not enough to hold others up.
FETCHED_COUNT_MAX = 500
FETCHED_BYTES_MAX = 256 << 10
# Entries to replay after a crash are half a second of work at this count; small batches reach it long before the bytes.
SNAPSHOT_ENTRIES = 50_000
# While space is short, rounds follow each other at least this far apart.
SHORT_ROUND_MS = 100
# Left free in a carried command for its head: at most 27 bytes an entry.
_CARRIED_HEAD_BYTES = 64 << 10
# The part of that head for the names of destinations, where they are written at all.
_NAMES_BYTES = 24 << 10


class Upkeep:
    def __init__(
        self,
        directory: Directory,
        channel: Channel,
        clock: Clock,
        settings: NodeSettings,
        until_applied: Callable[[int], Awaitable[None]],
    ) -> None:
        self.carried = 0
        self._directory = directory
        self._channel = channel
        self._clock = clock
        self._settings = settings
        self._until_applied = until_applied
        self._epoch = 0
        self._snapshot_at = 0
        self._snapshot_bytes = 0
        self._bytes_at_snapshot = 0
        self._round: asyncio.Task[None] | None = None
        self._round_ms = 0
        self._again: asyncio.TimerHandle | None = None
        self._is_stopped = False
        self._is_short = channel.pressure.is_short
        channel.watch_pressure(self._note_pressure)

    def _note_pressure(self, pressure: Pressure) -> None:
        self._is_short = pressure.is_short

    @property
    def snapshot_at(self) -> int:
        """The entry of the newest snapshot that is safe."""
        return self._snapshot_at

    def begin(self, epoch: int, snapshot_at: int) -> None:
        self._epoch = epoch
        self._snapshot_at = snapshot_at
        self._bytes_at_snapshot = self._channel.bytes_appended

    def begin_if_due(self) -> None:
        """Begin a round if it is worth it."""
        if self._round is not None and not self._round.done():
            return
        if self._is_snapshot_due() or (self._is_short and self._is_anything_to_free()):
            self._round_ms = self._clock.steady_ms()
            self._round = supervision.start(self._keep_up(), "upkeep")
            self._round.add_done_callback(lambda _: self._check_later())

    def _check_later(self) -> None:
        """While space is short, check again after a round: events confirmed during it may be worth another one."""
        if self._again is None and self._is_short and not self._is_stopped:
            self._again = self._clock.call_later(SHORT_ROUND_MS, self._check)

    def _check(self) -> None:
        self._again = None
        if not self._is_stopped:
            self.begin_if_due()
            self._check_later()

    def _is_snapshot_due(self) -> bool:
        """Replay is bounded in bytes and in entries, as long as snapshots stay a fifth of what is written."""
        fresh = self._channel.bytes_appended - self._bytes_at_snapshot
        entries = self._directory.applied - self._snapshot_at
        is_much = fresh >= self._settings.snapshot_bytes or entries >= SNAPSHOT_ENTRIES
        return is_much and fresh >= 4 * self._snapshot_bytes

    def _is_anything_to_free(self) -> bool:
        if self._clock.steady_ms() - self._round_ms < SHORT_ROUND_MS:
            self._check_later()
            return False
        stretch = self._channel.oldest_stretch()
        if stretch is None:
            return False
        return self._directory.oldest_needed() > stretch.last or self._is_mostly_finished(stretch)

    def _is_mostly_finished(self, stretch: Stretch) -> bool:
        """Judged by the number of entries, which is cheap to know; their bytes are counted when they are fetched."""
        if self._directory.is_pinned(stretch.first, stretch.last):
            return False
        entries = len(self._directory.needed_between(stretch.first, stretch.last))
        return entries < ALIVE_MAX * (stretch.last - stretch.first + 1)

    async def stop(self, is_snapshot_wanted: bool) -> None:
        """End, if wanted after a last snapshot, so that the next start has nothing to replay."""
        self._is_stopped = True
        if self._again is not None:
            self._again.cancel()
        if self._round is not None:
            self._round.cancel()
            await asyncio.gather(self._round, return_exceptions=True)
        if is_snapshot_wanted:
            await self._guarded(self._snapshot())

    # --- a round -----------------------------------------------------------------------------------------------------

    async def _keep_up(self) -> None:
        if self._is_snapshot_due():
            await self._guarded(self._snapshot())
        await self._guarded(self._free())

    async def _guarded(self, work: Awaitable[None]) -> None:
        """Log a failure. It costs space or time, never an event; the next round tries again."""
        try:
            await work
        except Closed:
            pass
        except HoldfastError as problem:
            log.warning("upkeep is put off: %s", problem)
        except Exception as problem:  # a fault of ours
            supervision.report("upkeep", problem)

    async def _snapshot(self) -> None:
        self._bytes_at_snapshot = self._channel.bytes_appended
        applied = self._directory.applied
        counted = _Counted(self._directory.snapshot())
        await self._channel.save_snapshot(applied, counted)
        self._snapshot_at = applied
        self._snapshot_bytes = counted.bytes
        await self._release()

    async def _release(self) -> None:
        await self._channel.release(min(self._directory.oldest_needed(), self._snapshot_at + 1))

    async def _free(self) -> None:
        """Free the oldest stretches, one after the other, as long as it is worth its cost."""
        freed = 0
        for _ in range(STRETCHES_A_ROUND):
            stretch = self._channel.oldest_stretch()
            if stretch is None or stretch.last == freed:
                return
            if self._directory.is_pinned(stretch.first, stretch.last):
                return  # nothing behind it can be freed before it (rule 8)
            entries = self._directory.needed_between(stretch.first, stretch.last)
            if len(entries) > FETCHED_COUNT_MAX and not self._is_short and not self._is_mostly_finished(stretch):
                return  # counted in bytes it may still be worth it, but that means reading too many batches
            if entries and not await self._carry(entries, int(stretch.bytes * ALIVE_MAX)):
                return
            freed = stretch.last
            if self._snapshot_at < stretch.last:
                await self._snapshot()
            else:
                await self._release()
            if self._is_short and self._channel.first <= stretch.last < self._directory.oldest_needed():
                await self._snapshot()  # a channel that keeps the entries after an older snapshot, too: make this one the older

    # --- carrying ----------------------------------------------------------------------------------------------------

    async def _carry(self, entries: Sequence[int], bytes_max: int) -> bool:
        """Append the batches of these entries again and wait until they are applied. False if they are too many bytes."""
        batches: list[_Straggler] = []
        total = 0
        while len(batches) < len(entries):
            rest = entries[len(batches) :][:FETCHED_COUNT_MAX]
            places = [self._directory.locate(entry) for entry in rest]
            fetched = await self._channel.fetch(places, FETCHED_BYTES_MAX)
            for entry, found in zip(rest, fetched, strict=False):
                body = body_in(found, entry)
                # Only a subscription that many topics fill has to ask a batch where it was sent.
                sent_to = body.destination if self._directory.catalog.patterns else ""
                batches.append(_Straggler(entry, body.batch, sent_to, body.accepted_us))
                total += len(batches[-1].batch)
            if total > bytes_max:
                return False
        for group in _in_commands(batches):
            destinations = [each.destination for each in group] if any(each.destination for each in group) else []
            lengths = [len(each.batch) for each in group]
            accepted = [each.accepted_us for each in group]
            carried = command.Carried(self._epoch, [each.entry for each in group], lengths, destinations, accepted)
            payload = b"".join(each.batch for each in group)
            receipt = await self._channel.append(command.encode(carried, payload), Purpose.UPKEEP)
            await self._until_applied(receipt.entry)
            self.carried += len(group)
        return True


class _Counted:
    """Chunks, taken one by one, and how many bytes they were."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self.bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.bytes += len(chunk)
            yield chunk


class _Straggler(NamedTuple):
    entry: int
    batch: Buffer
    destination: str
    accepted_us: int


def _in_commands(batches: Sequence[_Straggler]) -> list[list[_Straggler]]:
    """Groups that fit one command each; a batch that fills one alone gets one alone."""
    groups: list[list[_Straggler]] = []
    room = names = 0
    for each in batches:
        names += len(each.destination)
        if room < len(each.batch) or len(groups[-1]) >= CARRIED_COUNT_MAX or names > _NAMES_BYTES:
            groups.append([])
            room = max(len(each.batch), COMMAND_BYTES_MAX - _CARRIED_HEAD_BYTES)
            names = len(each.destination)
        groups[-1].append(each)
        room -= len(each.batch)
    return groups
