"""A server that says exactly the bytes a test wants, also such as no HTTP server would: cut, dribbled, garbled, never."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from tests.waiting import turn_loop

Say = Callable[[asyncio.StreamWriter, bytes], Awaitable[bool]]


class RawHttpServer:
    """Reads requests and has `say` answer each; `say` returns whether the connection goes on."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self.requests: list[bytes] = []
        self.connections = 0
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._say(writer, await self._read(reader)):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        lengths = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        request = head + await reader.readexactly(sum(lengths))
        self.requests.append(request)
        return request


def saying(*pieces: bytes, goes_on: bool = True) -> Say:
    """Say these pieces, each in a packet of its own as far as the system lets it."""

    async def say(writer: asyncio.StreamWriter, request: bytes) -> bool:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await turn_loop()
        return goes_on

    return say


@asynccontextmanager
async def raw_http_server(say: Say) -> AsyncIterator[RawHttpServer]:
    server = RawHttpServer(say)
    await server.start()
    try:
        yield server
    finally:
        await server.close()
