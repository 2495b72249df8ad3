"""A TCP proxy that passes everything on and keeps a copy: what a capture of a link would show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class RecordingProxy:
    """Passes connections on to `target`, once that is said. `captured` is what went through, both ways."""

    def __init__(self) -> None:
        self.target: tuple[str, int] | None = None
        self.captured = bytearray()
        self.port = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.target is None:
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_connection(*self.target)
        await asyncio.gather(self._pass(reader, far_writer), self._pass(far_reader, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                self.captured += data
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def recording_proxy() -> AsyncIterator[RecordingProxy]:
    proxy = RecordingProxy()
    server = await asyncio.start_server(proxy.take, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
