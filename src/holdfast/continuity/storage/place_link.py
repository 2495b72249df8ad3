"""The link to a place: HTTP/1.1 over asyncio's streams, with connections that are used again. Fronts and other places speak it.

    async with links.ask(address, "/objects/…") as answer: async for chunk in answer.chunks(): …
    upload = await links.upload(address, "/staged/…"); await upload.send(chunk); answer = await upload.finish()

Bodies are streamed in both directions, in bounded memory. LinkBroken says that no whole answer came. An address is HOST:PORT.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

CONNECT_SECONDS = 2.0
# A place that neither sends nor takes a byte for so long counts as gone.
STALL_SECONDS = 10.0
IDLE_MAX = 8
BUFFER_BYTES = 256 << 10
JSON_BYTES_MAX = 16 << 20


class LinkBroken(Exception):
    """A place could not be reached, or broke off."""


class _Connection:
    def __init__(self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.address = address
        self.reader = reader
        self.writer = writer

    @property
    def is_usable(self) -> bool:
        return not self.reader.at_eof() and not self.writer.is_closing()


class Answer:
    """An answer whose head is here. `chunks` are read once; what is left unread costs the connection."""

    def __init__(self, connection: _Connection, status: int, headers: dict[str, str]) -> None:
        self.status = status
        self.headers = headers
        self.is_finished = headers.get("content-length") == "0"
        self.connection = connection

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, as it comes. LinkBroken if it ends too early."""
        if self.is_finished:
            return
        reader = self.connection.reader
        try:
            if "content-length" in self.headers:
                left = int(self.headers["content-length"])
                while left:
                    async with asyncio.timeout(STALL_SECONDS):
                        chunk = await reader.read(min(left, BUFFER_BYTES))
                    if not chunk:
                        raise LinkBroken(f"the answer ended {left:,} bytes too early")
                    left -= len(chunk)
                    yield chunk
            else:
                while size := await _line_of(reader):
                    async with asyncio.timeout(STALL_SECONDS):
                        chunk = await reader.readexactly(int(size, 16) + 2)
                    if len(chunk) == 2:
                        self.is_finished = True
                        return
                    yield chunk[:-2]
                raise LinkBroken("the answer ended too early")
        except (OSError, TimeoutError, EOFError, ValueError) as problem:
            raise LinkBroken(f"the answer broke off: {problem!r}") from problem
        self.is_finished = True

    async def json(self) -> Any:
        body = b""
        async for chunk in self.chunks():
            body += chunk
            if len(body) > JSON_BYTES_MAX:
                raise LinkBroken("the answer is too large")
        try:
            return msgspec.json.decode(body)
        except msgspec.DecodeError as problem:
            raise LinkBroken(f"the answer is no JSON: {problem}") from problem


async def _line_of(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(STALL_SECONDS):
        return (await reader.readuntil(b"\r\n")).strip()


class Upload:
    """A request whose body is being sent."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    async def send(self, chunk: bytes) -> None:
        """Send a part of the body. Waits while the place takes no more."""
        writer = self._connection.writer
        try:
            writer.writelines((b"%x\r\n" % len(chunk), chunk, b"\r\n"))
            async with asyncio.timeout(STALL_SECONDS):
                await writer.drain()
        except (OSError, TimeoutError) as problem:
            raise LinkBroken(f"the place takes nothing more: {problem!r}") from problem

    async def finish(self, timeout: float) -> Any:
        """End the body; the answer, if it is 200, as JSON."""
        try:
            self._connection.writer.write(b"0\r\n\r\n")
            answer = await _head(self._connection, timeout)
            if answer.status != 200:
                raise LinkBroken(f"the place answered {answer.status}")
            return await answer.json()
        finally:
            self.cancel()

    def cancel(self) -> None:
        self._connection.writer.close()


class PlaceLinks:
    """Connections to places, by address."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._idle: dict[str, list[_Connection]] = {}

    @asynccontextmanager
    async def ask(self, address: str, target: str, *, timeout: float = STALL_SECONDS) -> AsyncIterator[Answer]:
        """Ask. `timeout` is for the head of the answer."""
        answer = await self.begin(address, target, timeout)
        try:
            yield answer
        finally:
            self.give_back(answer)

    async def json(self, address: str, target: str, *, timeout: float = STALL_SECONDS) -> tuple[int, Any]:
        """The status and the JSON of an answer."""
        async with self.ask(address, target, timeout=timeout) as answer:
            return answer.status, await answer.json()

    async def upload(self, address: str, target: str) -> Upload:
        """Begin to send a body of unknown size."""
        connection = await self._connect(address)
        lines = f"PUT {target} HTTP/1.1\r\nhost: {address}\r\ntransfer-encoding: chunked\r\n\r\n"
        connection.writer.write(lines.encode())
        return Upload(connection)

    async def begin(self, address: str, target: str, timeout: float) -> Answer:
        """Ask; the answer as soon as its head is here. Give it back afterwards."""
        request = f"GET {target} HTTP/1.1\r\nhost: {address}\r\n\r\n".encode()
        while (idle := self._take_idle(address)) is not None:
            try:
                return await self._ask_on(idle, request, timeout)
            except LinkBroken:  # it was closed meanwhile: questions without a body may be asked again
                continue
        return await self._ask_on(await self._connect(address), request, timeout)

    async def _ask_on(self, connection: _Connection, request: bytes, timeout: float) -> Answer:
        try:
            connection.writer.write(request)
            return await _head(connection, timeout)
        except BaseException:
            connection.writer.close()
            raise

    def _take_idle(self, address: str) -> _Connection | None:
        idle = self._idle.get(address, [])
        while idle:
            found = idle.pop()
            if found.is_usable:
                return found
            found.writer.close()
        return None

    def give_back(self, answer: Answer) -> None:
        """An answer is not needed any more. Its connection is used again if all of it was read."""
        idle = self._idle.setdefault(answer.connection.address, [])
        is_kept = answer.is_finished and answer.headers.get("connection", "").lower() != "close"
        if is_kept and answer.connection.is_usable and len(idle) < IDLE_MAX:
            idle.append(answer.connection)
        else:
            answer.connection.writer.close()

    async def _connect(self, address: str) -> _Connection:
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=self._tls, limit=BUFFER_BYTES)
        except (OSError, TimeoutError, ValueError) as problem:
            raise LinkBroken(f"the place at {address} cannot be reached: {problem!r}") from problem
        return _Connection(address, reader, writer)

    def close(self) -> None:
        for idle in self._idle.values():
            for each in idle:
                each.writer.close()
        self._idle.clear()


async def _head(connection: _Connection, timeout: float) -> Answer:
    try:
        async with asyncio.timeout(timeout):
            head = await connection.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        status = int(first.split(" ", 2)[1])
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    except (OSError, TimeoutError, EOFError, asyncio.LimitOverrunError, ValueError, IndexError) as problem:
        raise LinkBroken(f"no answer came: {problem!r}") from problem
    return Answer(connection, status, headers)
