"""A domain as it runs: Holdfast, small servers, a listener before each, and engines; every one of them a process."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from pathlib import Path
from types import TracebackType

import holdfast
from examples.free_port import free_port
from holdfast.continuity import domain_status, register
from holdfast.continuity.domain import Domain
from tests.bench.child import Child, accepts_connections
from tests.bench.http_load import NoAnswer, OneClient
from tests.bench.peers.holdfast import Server

TOP = Path(__file__).resolve().parents[3]
NAMES = ("a", "b")


class Part:
    """A process at a port that can be started again."""

    def __init__(self, folder: Path, command: list[str], port: int = 0) -> None:
        self.port = port
        self._folder = folder
        self._command = [sys.executable, *command]
        self.child: Child | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        self.child = Child(self._command, self._folder, {"PYTHONPATH": os.pathsep.join((str(TOP / "src"), str(TOP), *sys.path))})
        if self.port:
            self.child.wait_until(lambda: accepts_connections(self.port))

    @property
    def pid(self) -> int:
        assert self.child is not None
        return self.child.pid

    def kill(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child = None

    def stop(self) -> None:
        if self.child is not None:
            self.child.stop()
            self.child = None


def small_server(folder: Path, delay_s: float = 0.0) -> Part:
    port = free_port()
    return Part(folder, ["-m", "tests.bench.peers.small_server", str(port), str(delay_s)], port)


def multicast(folder: Path, servers: list[Part], is_durable: bool) -> Part:
    port = free_port()
    file = str(folder / "requests") if is_durable else ""
    return Part(
        folder, ["-m", "tests.bench.peers.multicast", str(port), file, *(str(each.port) for each in servers)], port
    )  # fmt: skip


class RunningDomain:
    """Use it as `with`: entered, its engines take requests; left, every process is gone."""

    def __init__(self, folder: Path, domain: Domain, servers: list[Part], engines: int = 1) -> None:
        self.domain = domain
        self.folder = folder
        self._holdfast = Server()
        self._holdfast_folder = folder / "holdfast"
        self._holdfast_folder.mkdir(parents=True)
        self._engine_count = engines
        self.servers = dict(zip(NAMES, servers, strict=True))
        self.listeners: dict[str, Part] = {}
        self.engines: list[Part] = []

    def __enter__(self) -> RunningDomain:
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _start(self) -> None:
        self._holdfast.start(self._holdfast_folder)
        self.url = self._holdfast.url
        asyncio.run(self._create())
        for name, server in self.servers.items():
            command = ["-m", "holdfast", "listener", "--domain", self.domain.name, "--name", name, "--store", "store"]
            options = ["--server", f"http://127.0.0.1:{server.port}", "--url", self.url, "--log-level", "warning"]
            self.listeners[name] = Part(self.folder / f"listener-{name}", command + options)
            self.listeners[name].start()
        self.engines = [self._engine(number) for number in range(self._engine_count)]
        for engine in self.engines:
            engine.start()
        for engine in self.engines:
            self.until(partial(is_answered, engine.port), engine)
        self.until(lambda: len(self.current()) == len(self.servers), self.engines[0])

    def _engine(self, number: int) -> Part:
        port = free_port()
        command = ["-m", "holdfast", "engine", "--domain", self.domain.name, "--name", f"e{number}"]
        options = ["--listen", f"127.0.0.1:{port}", "--url", self.url, "--log-level", "warning"]
        return Part(self.folder / f"engine-{number}", command + options, port)

    @property
    def port(self) -> int:
        """The port of the first engine."""
        return self.engines[0].port

    async def _create(self) -> None:
        async with holdfast.connect(self.url) as client:
            await register.create(client, self.domain)

    def current(self) -> list[str]:
        """The names of servers that are current."""

        async def ask() -> list[str]:
            async with holdfast.connect(self.url) as client:
                told = await domain_status.ask(client, self.domain.name)
                return [each["server"] for each in told["servers"] if each["state"] == "current"]

        return asyncio.run(ask())

    @staticmethod
    def until(condition: object, part: Part) -> None:
        assert callable(condition) and part.child is not None
        part.child.wait_until(condition)

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        for part in (*self.engines, *self.listeners.values(), *self.servers.values()):
            part.kill()
        self._holdfast.kill()


def is_answered(port: int) -> bool:
    try:
        client = OneClient(port, timeout_s=1)
        try:
            return client.ask("POST", "/k/0")[0] == 200
        finally:
            client.close()
    except NoAnswer:
        return False
