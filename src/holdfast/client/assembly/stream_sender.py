"""The stream sender sends events that are larger than memory: it reads a source fragment by fragment, sends each as a part, then
one small event that names them, with their length and SHA-256. Nobody sees anything of it before the commit, and a failure frees
its space.

    path, file, bytes, iterator ─▶ fragments of 248 KiB ─▶ parts, a window of a few ─▶ event, commit ─▶ receipt

A source that fits one fragment becomes an ordinary event. At most a window of fragments is in memory, and after a lost link only
those are sent again: nothing is read twice, so any source will do.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from holdfast.client.receipt import Receipt
from holdfast.client.sending.batch_builder import BatchBuilder, Kind
from holdfast.client.sending.outgoing import EventFields, Outgoing, prepare
from holdfast.errors import BadEvent, TransactionAborted
from holdfast.event import position
from holdfast.event.event import LargeBody, decode_head, encode_head
from holdfast.event.hops import with_hops

if TYPE_CHECKING:
    from holdfast.client.assembly.assembly import Assembly
    from holdfast.client.assembly.part_outbox import PartOutbox
    from holdfast.client.link.questions import Questions
    from holdfast.client.sending.producer import Producer

# A group commit takes 256 KiB of large events, one fragment, so that small events wait for no more; measured at twice the rate of
# fragments half as long.
FRAGMENT_BYTES = 248 << 10

Bytes = bytes | bytearray | memoryview
Source = str | os.PathLike[str] | Bytes | BinaryIO | AsyncIterable[Bytes] | Iterable[Bytes]
# (bytes sent so far, bytes in all if that is known)
Progress = Callable[[int, int | None], object]


async def send_stream(
    parts: PartOutbox, producer: Producer, destination: str, kind: Kind, source: Source, progress: Progress | None,
    fields: EventFields, timeout: float,
) -> Receipt:  # fmt: skip
    assembly = parts.new()
    try:
        small = await add_stream(parts, assembly, destination, kind, source, progress, fields, timeout)
        if small is not None:
            parts.forget(assembly)
            return await producer.send(destination, kind, small, timeout)
        answer = await assembly.commit([], timeout)
    except TransactionAborted as problem:
        raise assembly.error or problem from problem
    except BaseException:
        parts.abandon_later(assembly)
        raise
    where = answer.repeated or position.of(answer.entry)
    return Receipt(where, *assembly.proof, assembly.event_id, bool(answer.repeated), parts.session.channel)


async def add_stream(
    parts: PartOutbox, assembly: Assembly, destination: str, kind: Kind, source: Source, progress: Progress | None,
    fields: EventFields, timeout: float, passed: tuple[int, int] = (0, 0),
) -> Outgoing | None:  # fmt: skip
    """Add a large event to an assembly; return a small one, as an ordinary event, for the caller to send. `passed`: its hops and
    its origin."""
    now_ms = parts.session.connection.server_time.now_ms
    made = prepare(b"", fields, now_ms)
    reading = SourceReader(source)
    sent, first = 0, assembly.parts + 1
    try:
        while chunk := await reading.next():
            if not sent and len(chunk) < FRAGMENT_BYTES:
                return prepare(bytes(chunk), fields, now_ms)
            assembly.add(chunk, kind=kind, large_bytes=reading.size or 0, bound_for="" if sent else destination)
            await parts.room(assembly, timeout)
            sent += len(chunk)
            if progress is not None:
                progress(sent, reading.size)
    finally:
        await reading.close()
    if not sent:
        return made
    large = LargeBody(sent, FRAGMENT_BYTES, reading.digest())
    _add_event(parts.session, assembly, destination, kind, made, (first, assembly.parts), large, passed)
    return None


def _add_event(
    session: Questions, assembly: Assembly, destination: str, kind: Kind, made: Outgoing, fragments: tuple[int, int],
    large: LargeBody, passed: tuple[int, int],
) -> None:  # fmt: skip
    head = decode_head(made.head)
    head.large = large
    builder = BatchBuilder(None, destination, kind, made.priority, made.delay_ms, 0)
    builder.add(made._replace(head=encode_head(head)))
    batch = builder.to_batch(session.source, session.ids)
    if any(passed):
        batch = with_hops(batch, *passed)
    builder.let_bodies_go()
    assembly.event_id = builder.receipt(0).identifier
    assembly.events.extend(builder, 0, 1)
    assembly.add(
        batch, destination, kind, fragments=fragments, fragment_bytes=large.fragment_bytes, large_bytes=large.size
    )  # fmt: skip


class SourceReader:
    """A source, read in fragments that are full but for the last. A thread reads files and hashes everything, so that the loop
    goes on meanwhile."""

    def __init__(self, source: Source) -> None:
        self.size: int | None = None
        self._digest = hashlib.sha256()
        self._rest = memoryview(b"")
        self._owned: BinaryIO | None = None
        self._pull = self._puller(source)

    def _puller(self, source: Any) -> Callable[[], Awaitable[Any]]:
        """Return the function that reads on: any number of bytes; None or none at the end."""
        if isinstance(source, str | os.PathLike):
            self._owned = opened = Path(source).open("rb")  # noqa: SIM115  # closed by `close`
            self.size = os.fstat(opened.fileno()).st_size
            return lambda: asyncio.to_thread(_read, opened)
        if isinstance(source, bytes | bytearray | memoryview):
            self.size = memoryview(source).nbytes
            pieces = iter([source])
            return lambda: _ready(next(pieces, None))
        if isinstance(source, AsyncIterable):
            chunks = aiter(source)
            return lambda: anext(chunks, None)
        if callable(getattr(source, "read", None)):
            return lambda: asyncio.to_thread(_read, source)
        if isinstance(source, Iterable):
            items = iter(source)
            return lambda: asyncio.to_thread(next, items, None)
        raise BadEvent(
            f"{type(source).__name__} cannot be sent as a stream; give a path, bytes, a binary file, or an iterator of bytes"
        )

    async def next(self) -> bytes | memoryview:
        """Read the next fragment; one that is not full, or empty, is the last."""
        if len(self._rest) >= FRAGMENT_BYTES:
            found: bytes | memoryview = self._rest[:FRAGMENT_BYTES]
            self._rest = self._rest[FRAGMENT_BYTES:]
        else:
            found = await self._gather()
        if found:
            await asyncio.to_thread(self._digest.update, found)
        return found

    async def _gather(self) -> bytes | memoryview:
        gathered = bytearray(self._rest)
        self._rest = memoryview(b"")
        while len(gathered) < FRAGMENT_BYTES and (chunk := _viewed(await self._pull())) is not None:
            if not gathered and len(chunk) == FRAGMENT_BYTES:
                return chunk
            missing = FRAGMENT_BYTES - len(gathered)
            gathered += chunk[:missing]
            self._rest = chunk[missing:]
        return bytes(gathered)

    def digest(self) -> bytes:
        return self._digest.digest()

    async def close(self) -> None:
        if self._owned is not None:
            await asyncio.to_thread(self._owned.close)


def _read(file: Any) -> Any:
    return file.read(FRAGMENT_BYTES) or None


async def _ready(found: Any) -> Any:
    return found


def _viewed(chunk: Any) -> memoryview | None:
    """View the bytes of a chunk; None at the end of a source. An iterator may give empty chunks before that."""
    if chunk is None:
        return None
    if not isinstance(chunk, bytes | bytearray | memoryview):
        raise BadEvent(f"a stream is of bytes, and its source gave {type(chunk).__name__}; open a file in binary mode")
    return memoryview(chunk).cast("B")
