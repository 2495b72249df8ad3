"""Reading the heads of events, and nothing else: for selectors, groups and expiries. Bodies stay on disk.

    entry ─▶ the first few KiB of its command ─▶ the batch as far as its heads ─▶ what a head says

A batch whose heads are longer than that is read again as far as they go. What was carried forward is read whole: it lies inside
another command.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.channel.channel import Buffer
from holdfast.destination.directory import Directory
from holdfast.errors import BatchDamaged, NoSuchPosition, UnknownVersion
from holdfast.event.batch import FIXED_LENGTH, Batch, count_of, without_bodies
from holdfast.node.reading import Fetching

# What is read of a command at first: enough for the heads of some twenty events.
FRONT_BYTES = 4 << 10
# Bytes of fronts that are fetched at a time.
FETCH_BYTES = 512 << 10
_NOT_A_HEAD = (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError)


class _Said(msgspec.Struct):
    """What is asked of a head here; the rest of it is passed over."""

    group: str | None = msgspec.field(default=None, name="g")
    expires_at_ms: int = msgspec.field(default=0, name="x")


_said = msgspec.msgpack.Decoder(_Said).decode


def group_in(batch: Batch, index: int) -> str | None:
    """The group of an event; None for none, and for a head that cannot be read."""
    try:
        return _said(batch.head(index)).group
    except _NOT_A_HEAD:
        return None


def expiry_in(batch: Batch, index: int) -> int:
    """When an event expires, ms since 1970; 0: never, and for a head that cannot be read."""
    try:
        return _said(batch.head(index)).expires_at_ms
    except _NOT_A_HEAD:
        return 0


class Heads:
    def __init__(self, directory: Directory, channel: Fetching) -> None:
        self._directory = directory
        self._channel = channel

    async def read(self, entries: Sequence[int]) -> dict[int, Batch | None]:
        """The batches of these entries, or of the first of them, without their bodies; None for one that cannot be read.

        NoSuchPosition for what was finished or carried meanwhile: ask again, with what waits then.
        """
        own = [entry for entry in entries if self._directory.locate(entry) == entry]
        found = await self._channel.fetch(own, FETCH_BYTES, FRONT_BYTES) if own else []
        read = {entry: await self._front(entry, data) for entry, data in zip(own, found, strict=False)}
        if not own:
            (whole,) = await self._channel.fetch([self._directory.locate(entries[0])])
            read[entries[0]] = self._batch(entries[0], whole)
        return read

    async def _front(self, entry: int, data: Buffer) -> Batch | None:
        missing = self._missing(self._directory.batch_in(data, entry))
        if missing > 0:
            (data,) = await self._channel.fetch([entry], None, len(data) + missing)
        return self._batch(entry, data)

    @staticmethod
    def _missing(front: memoryview) -> int:
        """Bytes that are missing of a batch as far as the end of its heads; 0 for what is no batch, too."""
        if len(front) < FIXED_LENGTH:
            return 0
        source, heads = int.from_bytes(front[10:12], "little"), int.from_bytes(front[56:60], "little")
        return FIXED_LENGTH + source + 8 * count_of(front) + heads - len(front)

    def _batch(self, entry: int, data: Buffer) -> Batch | None:
        try:
            front = self._directory.batch_in(data, entry)
            bodies = int.from_bytes(front[60:64], "little")
            is_whole = len(front) >= FIXED_LENGTH and self._missing(front) + bodies == 0
            return Batch(front if is_whole else without_bodies(front))
        except (BatchDamaged, UnknownVersion, NoSuchPosition):
            return None
