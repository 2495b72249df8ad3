"""Where a client can find its events: the places that one suite of tests runs over (E1)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server_process import SMALL_QUERY, ServerProcess
from tests.waiting import turn_loop


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("client") / "data") as process:
        yield process


@pytest.fixture(params=["memory", "file", "server", "managers", "cluster", "managed-cluster"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "memory":
            return "memory:shared"
        case "managers":  # two message managers in one process (ADR 22)
            return "memory:managed?managers=2"
        case "cluster":  # two nodes of a cluster over NATS: clients are at the one that is not primary
            return str(request.getfixturevalue("cluster").beside)
        case "managed-cluster":  # two message managers, each with a copy at both nodes (ADR 27)
            return str(request.getfixturevalue("managed_cluster").beside)
        case "file":
            return f"file:{tmp_path / 'events'}{SMALL_QUERY}"
        case _:
            return str(request.getfixturevalue("server").url)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A destination of this test's own: the server is shared by a module."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[-200:].strip("-_")


class _End(asyncio.Protocol):
    """One end of a proxied connection; what it receives goes to the other."""

    def __init__(self, proxy: CuttingProxy, other: _End | None = None) -> None:
        self.transport: asyncio.Transport | None = None
        self.is_far = other is not None  # the end at the server
        self._proxy = proxy
        self._other = other
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._proxy.ends.add(self)
        if self._other is not None:
            self._other.meet(self)
        elif self._proxy.is_refusing:
            transport.abort()
        else:
            self._proxy.reach(self)

    def meet(self, other: _End) -> None:
        self._other = other
        for data in self._early:
            self.data_received(data)

    def data_received(self, data: bytes) -> None:
        if self._other is None:
            self._early.append(data)
        elif self._other.transport is not None and not (self.is_far and self._proxy.is_deaf):
            self._other.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._proxy.ends.discard(self)
        if self._other is not None and self._other.transport is not None:
            self._other.transport.abort()


class CuttingProxy:
    """Stands between client and server, and cuts every connection when told; refuses new ones while it `is_refusing`; passes on
    nothing that the server says while it `is_deaf`."""

    def __init__(self, port: int) -> None:
        self.is_refusing = False
        self.is_deaf = False
        self.port = 0
        self.connections = 0
        self.ends: set[_End] = set()
        self._target = port
        self._server: asyncio.Server | None = None
        self._reaching: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"holdfast://127.0.0.1:{self.port}"

    async def __aenter__(self) -> CuttingProxy:
        self._server = await asyncio.get_running_loop().create_server(lambda: _End(self), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        await asyncio.gather(*self._reaching)
        while self.ends:
            self.cut()
            await turn_loop()

    def reach(self, near: _End) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._reach(near))
        self._reaching.add(task)
        task.add_done_callback(self._reaching.discard)

    async def _reach(self, near: _End) -> None:
        await asyncio.get_running_loop().create_connection(lambda: _End(self, near), "127.0.0.1", self._target)

    def cut(self) -> None:
        for end in list(self.ends):
            assert end.transport is not None
            end.transport.abort()
