"""The head reader: reads the heads of events, for selectors, groups and expiries. Bodies stay on disk.

    entry ─▶ the first few KiB of its command ─▶ the batch as far as its heads ─▶ the fields of a head

A batch whose heads are longer than that is read again, up to their end. A batch that was carried forward is read whole: it lies
inside another command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from holdfast.channel.channel import Buffer
from holdfast.destination.directory import Directory
from holdfast.event.batch import FIXED_LENGTH, Batch, count_of, without_bodies
from holdfast.event.event import NOT_READABLE
from holdfast.node.reading.place_pages import EntrySource

# Bytes of a command that are read at first: enough for the heads of some twenty events.
FRONT_BYTES = 4 << 10
# Bytes of fronts that are fetched at a time.
FETCH_BYTES = 512 << 10
# Bytes of heads that are read at a time, whole batches only; the first batch is read in any case.
READ_BYTES = 1 << 20


class _HeadFields(msgspec.Struct):
    """The fields of a head that are needed here; the others are passed over."""

    group: str | None = msgspec.field(default=None, name="g")
    expires_at_ms: int = msgspec.field(default=0, name="x")


_fields_of = msgspec.msgpack.Decoder(_HeadFields).decode


def group_in(batch: Batch, index: int) -> str | None:
    """The group of an event; None for none, and for a head that cannot be read."""
    try:
        return _fields_of(batch.head(index)).group
    except NOT_READABLE:
        return None


def expiry_in(batch: Batch, index: int) -> int:
    """When an event expires, ms since 1970; 0: never, and for a head that cannot be read."""
    try:
        return _fields_of(batch.head(index)).expires_at_ms
    except NOT_READABLE:
        return 0


class HeadReader:
    def __init__(self, directory: Directory, channel: EntrySource) -> None:
        self._directory = directory
        self._channel = channel

    async def read(self, entries: Sequence[int]) -> dict[int, Batch | None]:
        """The batches of some of these entries, without their bodies; None for one that cannot be read. First the batches that
        lie where they were placed; if there are none, one that was carried forward.

        NoSuchPosition when an entry was finished or carried meanwhile: ask again, with what waits then.
        """
        own = [entry for entry in entries if self._directory.locate(entry) == entry]
        found = await self._channel.fetch(own, FETCH_BYTES, FRONT_BYTES) if own else []
        read: dict[int, Batch | None] = {}
        size = 0
        for entry, data in zip(own, found, strict=False):
            read[entry] = front = await self._front(entry, data)
            size += len(front.data) if front is not None else 0
            if size > READ_BYTES:
                await asyncio.sleep(0)  # fetching from memory does not pause: others have their turn
                break
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
        """Bytes that are missing up to the end of a batch's heads; 0 also for what is no batch."""
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
        except Exception:  # logged and set aside when it is fetched
            return None
