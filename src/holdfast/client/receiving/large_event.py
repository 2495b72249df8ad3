"""Reads a large event, which need not fit memory: fragment after fragment, a few requests ahead.

    async with event.open_stream() as stream:
        await stream.save("order.pdf")            # or: async for chunk in stream, or: await stream.read(4096)

After the last byte, length and SHA-256 are compared with those that the producer sent: a program that reads to the end without
an exception has what was sent. A lost link is waited for. A read that is cancelled loses nothing: the next one begins where it
did. Afterwards the event is confirmed, released or rejected like any other. A confirmed event can be read no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import hashlib
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from holdfast.errors import BatchDamaged, Closed, Refused
from holdfast.event.event import LargeBody
from holdfast.wire.frame import Buffer, ReadFragment

if TYPE_CHECKING:
    from holdfast.client.connection.session import Session

# Requests under way: 744 KiB at most. Small events on the same link wait for no more than that.
REQUESTS_MAX = 3

Progress = Callable[[int, int], object]


class EventStream:
    """The data of one event, large or not, read from its beginning once."""

    def __init__(
        self,
        session: Session,
        receiver: int,
        position: int,
        large: LargeBody | None,
        body: Buffer,
        backlog: tuple[str, str] = ("", ""),
    ) -> None:
        """`receiver` holds the event; 0 where nobody does and it waits in a `backlog`."""
        self.size = large.size if large is not None else len(body)
        self._session = session
        self._receiver = receiver
        self._position = position
        self._backlog = backlog
        self._large = large
        self._fragments = -(-large.size // large.fragment_bytes) if large is not None else 0
        self._asked = 0
        self._requests: deque[asyncio.Task[Buffer]] = deque()
        self._pulling: asyncio.Task[memoryview] | None = None  # outlives a reader that is cancelled, for the next one
        self._rest = memoryview(b"") if large is not None else memoryview(body)
        self._digest = hashlib.sha256()
        self._received = 0
        self._is_open = False
        self._is_broken = False

    async def __aenter__(self) -> Self:
        self._is_open = True
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop asking for fragments."""
        self._is_open = False
        tasks: list[asyncio.Task[Any]] = [*self._requests, *([self._pulling] if self._pulling is not None else [])]
        self._requests, self._pulling = deque(), None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self.next_chunk()
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def next_chunk(self) -> bytes:
        """The next bytes, as many as came together; none at the end."""
        return bytes(await self._next())

    async def read(self, count: int = -1) -> bytes:
        """The next `count` bytes, fewer only at the end; without a count, all the rest, which must fit memory."""
        found = bytearray()
        try:
            while (count < 0 or len(found) < count) and (chunk := await self._next()):
                wanted = len(chunk) if count < 0 else count - len(found)
                found += chunk[:wanted]
                self._rest = chunk[wanted:]
        except asyncio.CancelledError:
            self._rest = memoryview(bytes(found))
            raise
        return bytes(found)

    async def save(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> None:
        """Write the rest of the stream to a file, which gets its name only when it is whole and on disk. Parts of it that killed
        processes of this machine left behind are removed."""
        target = Path(path)
        await asyncio.to_thread(_remove_stale, target)
        partial = target.with_name(f".{target.name}.{os.getpid()}-{self._position}.partial")
        written = 0
        try:
            with await asyncio.to_thread(partial.open, "wb") as file:
                while chunk := await self._next():
                    written += len(chunk)
                    await asyncio.to_thread(file.write, chunk)
                    if progress is not None:
                        progress(written, self.size)
                await asyncio.to_thread(_finish, file, partial, target)
        except BaseException:
            self._is_broken = written > 0  # these bytes are gone with the file: the rest must not be taken for the whole
            with contextlib.suppress(OSError):
                partial.unlink()
            raise

    # --- fragments ---------------------------------------------------------------------------------------------------

    async def _next(self) -> memoryview:
        """The next bytes; none at the end, after length and SHA-256 were checked."""
        if not self._is_open:
            raise Closed("the stream is not open; use it inside `async with event.open_stream() as stream`")
        if self._is_broken:
            raise Refused("saving this stream was broken off, and part of it is gone; open the stream again and begin anew")
        if len(self._rest):
            found, self._rest = self._rest, memoryview(b"")
            return found
        if self._pulling is None:
            self._pulling = self._session.connection.loop.create_task(self._pull())
        pulling = self._pulling
        await asyncio.wait([pulling])
        self._pulling = None
        if pulling.cancelled():
            raise Closed("the stream was closed while it was read; open it again to read it")
        return pulling.result()

    async def _pull(self) -> memoryview:
        self._ask_ahead()
        if not self._requests:
            self._check_whole()
            return memoryview(b"")
        found = memoryview(await self._requests[0])
        self._requests.popleft()
        self._ask_ahead()
        self._received += len(found)
        await asyncio.to_thread(self._digest.update, found)
        return found

    def _ask_ahead(self) -> None:
        while self._asked < self._fragments and len(self._requests) < REQUESTS_MAX:
            self._requests.append(self._session.connection.loop.create_task(self._fetch(self._asked)))
            self._asked += 1

    async def _fetch(self, index: int) -> Buffer:
        """Ask for a fragment, again on a new link. Fragments that came before are not asked for again."""
        found: Buffer = await self._session.ask_again(
            lambda token: ReadFragment(token, self._receiver, self._position, index, *self._backlog, self._session.channel),
            self._session.connection.timeout,
        )
        return found

    def _check_whole(self) -> None:
        large = self._large
        if large is not None and (self._received, self._digest.digest()) != (large.size, large.digest):
            raise BatchDamaged(
                f"the event at {self._position} was sent with {large.size} bytes, and the {self._received} that came differ; "
                "discard them and read it again",
                position=self._position,
            )


def _remove_stale(target: Path) -> None:
    """Remove parts of this file whose process has ended."""
    for found in target.parent.glob(f".{glob.escape(target.name)}.*.partial"):
        process, dash, _ = found.name.removeprefix(f".{target.name}.").partition("-")
        if dash and process.isdecimal() and not _runs(int(process)):
            with contextlib.suppress(OSError):
                found.unlink()


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # of another user
        return True
    return True


def _finish(file: BinaryIO, partial: Path, target: Path) -> None:
    file.flush()
    os.fsync(file.fileno())
    partial.replace(target)
