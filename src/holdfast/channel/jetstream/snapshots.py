"""Snapshots: chunks in a stream of their own, and one message that makes them whole.

    holdfast.state.NAME.chunk.ID.0 …  the chunks of one snapshot, large ones in parts; ID is new each time
    holdfast.state.NAME.newest        which ID is whole: entry, parts of each chunk, checksum

A save that dies midway leaves chunks that nobody names, until the next save removes them. `newest` is written only if it is still
what it was when the save began. So of two programs that save at once, one fails as a whole. The winner may remove every chunk it
saw before it wrote `newest`: their writers had begun before that, and can only lose.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from itertools import count

import crc32c
import msgspec
from nats.aio.client import Client
from nats.js.errors import NotFoundError

from holdfast.channel.channel import Buffer, Snapshot
from holdfast.channel.jetstream.nats_errors import not_answered
from holdfast.channel.jetstream.settings import JetStreamSettings, Names
from holdfast.errors import Damaged

PART_BYTES_MAX = 1 << 20


class _Newest(msgspec.Struct):
    id: str
    at: int
    parts: list[int]  # of each chunk
    checksum: int


class Snapshots:
    def __init__(self, connection: Client, names: Names, settings: JetStreamSettings) -> None:
        self._context = connection.jetstream(timeout=settings.timeout_s)
        self._stream = names.state_stream
        self._chunks = f"{names.state_subject}.chunk"
        self._newest = f"{names.state_subject}.newest"

    async def save(self, at: int, chunks: Iterable[Buffer]) -> None:
        _, revision = await self._find_newest()
        saving = secrets.token_hex(8)
        saved = await self._save_chunks(saving, at, chunks)
        others = await self._chunks_of_others(saving)
        await self._publish_newest(saved, revision)
        for other in others:
            await self._context.purge_stream(self._stream, subject=f"{self._chunks}.{other}.>")

    async def _save_chunks(self, saving: str, at: int, chunks: Iterable[Buffer]) -> _Newest:
        saved = _Newest(saving, at, [], 0)
        for chunk in chunks:
            parts = [bytes(chunk[start : start + PART_BYTES_MAX]) for start in range(0, len(chunk), PART_BYTES_MAX)]
            for number, part in enumerate(parts, sum(saved.parts)):
                await self._context.publish(f"{self._chunks}.{saving}.{number}", part, stream=self._stream)
            saved.checksum = crc32c.crc32c(chunk, saved.checksum)
            saved.parts.append(len(parts))
        return saved

    async def _chunks_of_others(self, saving: str) -> list[str]:
        info = await self._context.stream_info(self._stream, subjects_filter=f"{self._chunks}.>")
        found = {subject.split(".")[-2] for subject in info.state.subjects or ()}
        return sorted(found - {saving})

    async def _publish_newest(self, saved: _Newest, revision: int) -> None:
        expected = {"Nats-Expected-Last-Subject-Sequence": str(revision)}
        try:
            await self._context.publish(self._newest, msgspec.json.encode(saved), stream=self._stream, headers=expected)
        except TimeoutError as problem:
            raise not_answered("saving a snapshot") from problem

    async def load(self) -> Snapshot | None:
        """Return the newest whole snapshot. If another program replaces it meanwhile, return the newer one."""
        newest, revision = await self._find_newest()
        while newest is not None:
            try:
                return Snapshot(newest.at, await self._load_chunks(newest))
            except NotFoundError as problem:
                gone, (newest, found) = newest, await self._find_newest()
                if found == revision:
                    raise Damaged(
                        f"stream {self._stream}: a chunk of the snapshot at entry {gone.at} is gone; restore it from a backup"
                    ) from problem
                revision = found
        return None

    async def _find_newest(self) -> tuple[_Newest | None, int]:
        try:
            message = await self._context.get_last_msg(self._stream, self._newest)
        except NotFoundError:
            return None, 0
        return msgspec.json.decode(message.data or b"", type=_Newest), message.seq or 0

    async def _load_chunks(self, newest: _Newest) -> list[Buffer]:
        chunks: list[Buffer] = []
        checksum = 0
        numbers = count()
        for parts in newest.parts:
            chunk = b"".join([await self._load_part(f"{self._chunks}.{newest.id}.{next(numbers)}") for _ in range(parts)])
            checksum = crc32c.crc32c(chunk, checksum)
            chunks.append(chunk)
        if checksum != newest.checksum:
            raise Damaged(
                f"stream {self._stream}: the snapshot at entry {newest.at} has checksum {checksum:08x}, saved with "
                f"{newest.checksum:08x}; restore the stream from a backup",
                stream=self._stream,
            )
        return chunks

    async def _load_part(self, subject: str) -> bytes:
        """Load a part from any copy; from the leader when that copy is behind."""
        try:
            found = await self._context.get_last_msg(self._stream, subject, direct=True)
        except NotFoundError:
            found = await self._context.get_last_msg(self._stream, subject)
        return found.data or b""
