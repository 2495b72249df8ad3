"""Upkeep: what keeps a channel from growing for ever and replay short. Only a primary does it.

    snapshot    the directory's state as of an entry, so that replay begins there
    release     what no backlog needs and the snapshot covers (rule 8: a prefix only)
    carry       the few unfinished batches of an old, mostly finished stretch are copied forward, so that it can be freed (rule 9)

One round at a time, in the background, begun when enough was applied since the last one or when space is short. Memory: a
snapshot is encoded once (about 12 bytes a waiting batch); carrying holds a quarter of a segment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from holdfast.channel.channel import COMMAND_BYTES_MAX, Buffer, Channel, Purpose
from holdfast.destination import command
from holdfast.destination.directory import Directory
from holdfast.errors import HoldfastError
from holdfast.node.settings import NodeSettings

log = logging.getLogger("holdfast.upkeep")

# A stretch is carried only when less than this part of it is alive: copying more would cost more than it frees.
ALIVE_MAX = 0.25
STRETCHES_A_ROUND = 4
_CARRIED_HEAD_BYTES = 64 << 10


class Upkeep:
    def __init__(self, directory: Directory, channel: Channel, settings: NodeSettings) -> None:
        self.snapshots = 0
        self.carried = 0
        self._directory = directory
        self._channel = channel
        self._settings = settings
        self._epoch = 0
        self._snapshot_at = 0
        self._snapshot_size = 0
        self._bytes_at_snapshot = 0
        self._round: asyncio.Task[None] | None = None

    def begin(self, epoch: int) -> None:
        self._epoch = epoch
        self._bytes_at_snapshot = self._channel.bytes_appended

    def look(self, applied: int) -> None:
        """Begin a round if it is worth it."""
        if self._round is not None and not self._round.done():
            return
        fresh = self._channel.bytes_appended - self._bytes_at_snapshot
        wanted = max(self._settings.snapshot_bytes, 4 * self._snapshot_size)
        if self._channel.pressure.is_short:
            wanted = max(self._settings.snapshot_bytes // 16, self._snapshot_size)
        if fresh >= wanted:
            self._round = asyncio.create_task(self._keep_up(applied), name="upkeep")

    async def stop(self, applied: int | None) -> None:
        """End; with `applied`, after a last snapshot, so that the next start has nothing to replay."""
        if self._round is not None:
            self._round.cancel()
            await asyncio.gather(self._round, return_exceptions=True)
        if applied is not None:
            await self._guarded(self._snapshot(applied))

    async def _keep_up(self, applied: int) -> None:
        await self._guarded(self._snapshot(applied))
        await self._guarded(self._carry())

    async def _guarded(self, work: object) -> None:
        """Upkeep that fails costs space or time, never an event: it is said and tried again next time."""
        try:
            await work  # type: ignore[misc]
        except HoldfastError as problem:
            log.warning("upkeep: %s", problem)

    async def _snapshot(self, applied: int) -> None:
        self._bytes_at_snapshot = self._channel.bytes_appended
        chunks = list(self._directory.snapshot())
        await self._channel.save_snapshot(applied, chunks)
        self.snapshots += 1
        self._snapshot_at = applied
        self._snapshot_size = sum(map(len, chunks))
        await self._release()

    async def _release(self) -> None:
        await self._channel.release(min(self._directory.oldest_needed(), self._snapshot_at + 1))

    async def _carry(self) -> None:
        for _ in range(STRETCHES_A_ROUND):
            stretch = self._channel.oldest_stretch()
            if stretch is None:
                return
            entries = self._directory.needed_between(stretch.first, stretch.last)
            if not entries or not await self._carry_out_of(entries, int(stretch.bytes * ALIVE_MAX)):
                return
            await self._release()

    async def _carry_out_of(self, entries: Sequence[int], bytes_max: int) -> bool:
        """Append the batches of these entries again, unless they are too many bytes."""
        batches: list[Buffer] = []
        total = 0
        for entry in entries:
            (found,) = await self._channel.fetch([self._directory.locate(entry)])
            batch = self._directory.batch_in(found, entry)
            total += len(batch)
            if total > bytes_max:
                return False
            batches.append(batch)
        for group in _in_commands(list(zip(entries, batches, strict=True))):
            carried = command.Carried(self._epoch, [entry for entry, _ in group], [len(batch) for _, batch in group])
            payload = b"".join(batch for _, batch in group)
            await self._channel.append(command.encode(carried, payload), Purpose.UPKEEP)
            self.carried += len(group)
        return True


def _in_commands(batches: Sequence[tuple[int, Buffer]]) -> list[list[tuple[int, Buffer]]]:
    """Groups that fit one command each."""
    groups: list[list[tuple[int, Buffer]]] = []
    room = 0
    for entry, batch in batches:
        if room < len(batch) or len(groups[-1]) >= 2_000:
            groups.append([])
            room = (
                COMMAND_BYTES_MAX - _CARRIED_HEAD_BYTES if len(batch) <= COMMAND_BYTES_MAX - _CARRIED_HEAD_BYTES else len(batch)
            )
        groups[-1].append((entry, batch))
        room -= len(batch)
    return groups
