"""An engine behind HTTP for tests of continuity, and a client that sees every byte: also whether an answer was cut."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httptools
import uvicorn

import holdfast
from holdfast.continuity import register
from holdfast.continuity.domain import Domain
from holdfast.continuity.engine.application import Application
from holdfast.continuity.engine.engine import Engine
from holdfast.continuity.engine.front import configured
from holdfast.continuity.engine.plain.plain_protocol import PlainProtocol
from tests.waiting import until


class Fronted(NamedTuple):
    engine: Engine
    port: int


@asynccontextmanager
async def fronted_engine(url: str, domain: Domain, **options: Any) -> AsyncIterator[Fronted]:
    """A domain, made anew, and an engine of it that takes requests on a port."""
    async with holdfast.connect(url) as client:
        await register.create(client, domain)
        async with Engine(url, domain.name, **options) as engine, served(Application(engine)) as port:
            yield Fronted(engine, port)


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[int]:
    """An ASGI application under uvicorn; its port."""
    listening = socket.create_server(("127.0.0.1", 0))
    http = PlainProtocol if isinstance(app, Application) else "httptools"
    config = configured(app, http, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve([listening]))
    await until(lambda: server.started, "it takes requests")
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        await serving


class Seen:
    """An answer, as far as it came."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.is_whole = False
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode().lower()] = value.decode()

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.is_whole = True


class Asking:
    """A request on a connection of its own. `seen` is the answer so far."""

    def __init__(self, writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
        self.seen = Seen()
        self._writer = writer
        self._reading = asyncio.create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(65536):
            self.seen.feed(data)

    async def whole(self) -> Seen:
        """What was seen when the answer is whole, or the connection has ended."""
        await until(lambda: self.seen.is_whole or self._reading.done(), "the answer has ended")
        return self.seen

    async def leave(self) -> None:
        self._reading.cancel()
        self._writer.close()
        await asyncio.gather(self._reading, return_exceptions=True)


@asynccontextmanager
async def asking(
    port: int, target: str, *, method: str = "POST", body: bytes = b"", headers: dict[str, str] | None = None
) -> AsyncIterator[Asking]:
    """Ask, and look at the answer while it comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = [f"{method} {target} HTTP/1.1", "host: shop", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    asked = Asking(writer, reader)
    try:
        yield asked
    finally:
        await asked.leave()


async def ask(port: int, target: str, **options: Any) -> Seen:
    """The answer, whole or cut."""
    async with asking(port, target, **options) as asked:
        return await asked.whole()
