"""Snapshots: two generations, their chunks in a stream of their own, and one message that makes them whole.

    holdfast.state.NAME.chunk.ID.0 …  the chunks of one snapshot, large ones in parts; ID is new each time
    holdfast.state.NAME.newest        the two newest that are whole, each with its entry, its parts, a checksum, the stretches

A save that dies midway leaves chunks that nobody names, until the next save removes them. `newest` is written only if it is still
what it was when the save began. So of two programs that save at once, one fails as a whole. The winner may remove every chunk it
saw before it wrote `newest`: their writers had begun before that, and can only lose. A snapshot of an older state than the newest
is refused: entries after it may be gone.

Entries are released only below the older generation. So a newest one that is damaged costs time, and no state.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable
from itertools import count

import crc32c
import msgspec
from nats.aio.client import Client
from nats.js.errors import NotFoundError

from holdfast.channel.channel import Buffer, Snapshot, older_snapshot
from holdfast.channel.jetstream.direct_get import found_in
from holdfast.channel.jetstream.nats_errors import not_answered
from holdfast.channel.jetstream.settings import JetStreamSettings, Names, checksum_of, message_headers, message_id
from holdfast.errors import Damaged

log = logging.getLogger(__name__)

PART_BYTES_MAX = 1 << 20
GENERATIONS = 2
# How often a part is asked for when a copy of it is gone or damaged. Chance decides which server answers.
COPIES_ASKED = 8

Stretches = list[tuple[int, int, int]]


class Generation(msgspec.Struct):
    id: str
    at: int
    parts: list[int]  # of each chunk
    checksum: int
    stretches: Stretches


class _Newest(msgspec.Struct):
    generations: list[Generation]  # newest first


class Snapshots:
    def __init__(self, connection: Client, names: Names, settings: JetStreamSettings) -> None:
        self._context = connection.jetstream(timeout=settings.timeout_s)
        self._stream = names.state_stream
        self._chunks = f"{names.state_subject}.chunk"
        self._newest = f"{names.state_subject}.newest"

    # --- saving --------------------------------------------------------------------------------------------------------

    async def save(self, at: int, chunks: Iterable[Buffer], stretches: Stretches) -> None:
        before, revision = await self._find()
        if before and at < before[0].at:
            raise older_snapshot(at, before[0].at)
        saved = await self._save_chunks(Generation(secrets.token_hex(8), at, [], 0, stretches), chunks)
        kept = [saved, *before][:GENERATIONS]
        others = await self._chunks_besides(kept)
        await self._publish_newest(_Newest(kept), revision)
        for other in others:
            await self._context.purge_stream(self._stream, subject=f"{self._chunks}.{other}.>")

    async def _save_chunks(self, saved: Generation, chunks: Iterable[Buffer]) -> Generation:
        for chunk in chunks:
            parts = [bytes(chunk[start : start + PART_BYTES_MAX]) for start in range(0, len(chunk), PART_BYTES_MAX)]
            for number, part in enumerate(parts, sum(saved.parts)):
                await self._publish(f"{self._chunks}.{saved.id}.{number}", part, message_id(saved.id, number))
            saved.checksum = crc32c.crc32c(chunk, saved.checksum)
            saved.parts.append(len(parts))
        return saved

    async def _chunks_besides(self, kept: list[Generation]) -> list[str]:
        info = await self._context.stream_info(self._stream, subjects_filter=f"{self._chunks}.>")
        found = {subject.split(".")[-2] for subject in info.state.subjects or ()}
        return sorted(found - {each.id for each in kept})

    async def _publish(self, subject: str, data: bytes, message: str, **more: str) -> None:
        headers = message_headers(self._stream, message, checksum_of(data)) | more
        await self._context.publish(subject, data, headers=headers)

    async def _publish_newest(self, newest: _Newest, revision: int) -> None:
        expected = {"Nats-Expected-Last-Subject-Sequence": str(revision)}
        try:
            await self._publish(self._newest, msgspec.json.encode(newest), f"newest-{newest.generations[0].id}", **expected)
        except TimeoutError as problem:
            raise not_answered("saving a snapshot") from problem

    # --- loading -------------------------------------------------------------------------------------------------------

    async def releasable(self, below: int) -> int:
        """Return below which entry may be released: at most below the older generation; nothing while there is only one."""
        generations, _ = await self._find()
        if not generations:
            return below
        return min(below, generations[1].at + 1) if len(generations) == GENERATIONS else 1

    async def load(self) -> tuple[Snapshot, Stretches] | None:
        """Return the newest whole snapshot; the one before it where that is damaged. If another is saved meanwhile, that one."""
        generations, revision = await self._find()
        while generations:
            try:
                return await self._load_newest(generations)
            except Damaged:
                generations, found = await self._find()
                if found == revision:
                    raise
                revision = found
        return None

    async def _load_newest(self, generations: list[Generation]) -> tuple[Snapshot, Stretches]:
        for generation in generations[:-1]:
            try:
                return await self._load(generation)
            except Damaged as problem:
                log.error("%s; the one before it is loaded instead", problem)
        return await self._load(generations[-1])

    async def _find(self) -> tuple[list[Generation], int]:
        try:
            message = await self._context.get_last_msg(self._stream, self._newest)
        except NotFoundError:
            return [], 0
        return msgspec.json.decode(message.data or b"", type=_Newest).generations, message.seq or 0

    async def _load(self, generation: Generation) -> tuple[Snapshot, Stretches]:
        chunks: list[Buffer] = []
        checksum = 0
        numbers = count()
        for parts in generation.parts:
            chunk = b"".join([await self._load_part(generation, next(numbers)) for _ in range(parts)])
            checksum = crc32c.crc32c(chunk, checksum)
            chunks.append(chunk)
        if checksum != generation.checksum:
            raise self._damaged(generation, f"has checksum {checksum:08x}, and was saved with {generation.checksum:08x}")
        return Snapshot(generation.at, chunks), generation.stretches

    async def _load_part(self, generation: Generation, number: int) -> bytes:
        """Load a part from any copy; from the leader when that copy is behind or damaged; then from any again."""
        subject = f"{self._chunks}.{generation.id}.{number}"
        for attempt in range(COPIES_ASKED):
            try:
                found = await self._context.get_last_msg(self._stream, subject, direct=attempt != 1)
            except NotFoundError:
                continue
            part = found_in(0, found.data or b"", found.headers or {})
            if part.is_sound:
                return part.command
        raise self._damaged(generation, f"has lost part {number}, or no copy of it is as it was saved")

    def _damaged(self, generation: Generation, wrong: str) -> Damaged:
        return Damaged(
            f"stream {self._stream}: the snapshot at entry {generation.at} {wrong}; restore the stream from a backup",
            stream=self._stream,
        )
