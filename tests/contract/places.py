"""Where a client can find its events: the places that one suite of tests runs over (E1)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server_process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("client") / "data") as process:
        yield process


@pytest.fixture(params=["memory", "file", "server"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "memory":
            return "memory:shared"
        case "file":
            return f"file:{tmp_path / 'events'}"
        case _:
            return str(request.getfixturevalue("server").url)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A destination of this test's own: the server is shared by a module."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[-200:].strip("-_")


class CuttingProxy:
    """Stands between client and server, and cuts every connection when told; refuses new ones while it `is_refusing`."""

    def __init__(self, port: int) -> None:
        self.is_refusing = False
        self.port = 0
        self.connections = 0
        self._target = port
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"holdfast://127.0.0.1:{self.port}"

    async def __aenter__(self) -> CuttingProxy:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_refusing:
            writer.transport.abort()
            return
        self.connections += 1
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._open |= {writer, far_writer}
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.get_running_loop().create_task(self._pump(source, sink))
            self._pumps.add(task)
            task.add_done_callback(self._pumps.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            sink.transport.abort()
            self._open.discard(sink)

    def cut(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()
