"""The processes of the bank: Holdfast, two servers, a listener before each, and an engine. None is left behind.

clients ──▶ engine ──▶ holdfast serve ──▶ listener a ──▶ server a
                                     └──▶ listener b ──▶ server b
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from examples.free_port import free_port

DOMAIN = "bank"
NAMES = ("a", "b")
# A journal is written with zeros when it is made: a small one is made at once.
SMALL = ("--journal-size", "128M", "--segment-size", "4M", "--reserve", "2M")
STOP_S_MAX = 20.0


class Bank:
    """All processes of the bank, in one folder. `url` is where clients go."""

    def __init__(self, folder: Path, names: Sequence[str] = NAMES) -> None:
        self._folder = folder
        self._names = names
        self._running: dict[str, subprocess.Popen[str]] = {}
        self.ports = {name: free_port() for name in names}

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _open(self) -> None:
        port = self._port_of("holdfast", _holdfast("serve", "--data", "journal", "--listen", "127.0.0.1:0", *SMALL))
        self.holdfast = f"holdfast://127.0.0.1:{port}"
        create = _holdfast("domain", "create", DOMAIN, "--read", "/accounts/*", "--url", self.holdfast)
        subprocess.run(create, cwd=self._folder, check=True, stdout=subprocess.DEVNULL)
        for name in self._names:
            self.start_server(name)
            self.start_listener(name)
        engine = _holdfast("engine", "--domain", DOMAIN, "--listen", "127.0.0.1:0", "--url", self.holdfast)
        self.port = self._port_of("engine", engine)
        self.url = f"http://127.0.0.1:{self.port}"

    def start_server(self, name: str, *options: str) -> None:
        """Start a server on its own port and file; after a kill, too."""
        port = self.ports.setdefault(name, free_port())
        program = [sys.executable, "-m", "examples.bank.server", "--port", str(port), *options, "--data"]
        self._start(f"server-{name}", [*program, str(self._folder.resolve() / f"{name}.sqlite")], Path(__file__).parents[2])

    def hang_server(self, name: str, is_hung: bool) -> None:
        """SIGSTOP, or SIGCONT."""
        self._running[f"server-{name}"].send_signal(signal.SIGSTOP if is_hung else signal.SIGCONT)

    def kill_server(self, name: str) -> None:
        """SIGKILL, and wait until it is gone."""
        process = self._running.pop(f"server-{name}")
        process.kill()
        process.communicate()

    def start_listener(self, name: str, role: str = "server") -> None:
        server = f"http://127.0.0.1:{self.ports[name]}"
        options = ("--domain", DOMAIN, "--server", server, "--name", name, "--store", f"store-{name}", "--role", role)
        self._start(f"listener-{name}", _holdfast("listener", *options, "--url", self.holdfast))

    def status(self) -> dict[str, Any]:
        """The status of the domain."""
        asked = _holdfast("domain", "status", DOMAIN, "--json", "--url", self.holdfast)
        told: dict[str, Any] = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
        return told

    def _port_of(self, what: str, command: list[str]) -> int:
        said = self._start(what, command)
        found = re.search(r":(\d+)$", said)
        assert found is not None, f"{what} said {said!r}"
        return int(found[1])

    def _start(self, what: str, command: list[str], folder: Path | None = None) -> str:
        """Start a process; its first line, which says that it is ready."""
        with (self._folder / f"{what}.log").open("a") as log:
            process = subprocess.Popen(command, cwd=folder or self._folder, stdout=subprocess.PIPE, stderr=log, text=True)
        self._running[what] = process
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"{what} did not start:\n{(self._folder / f'{what}.log').read_text()[-2000:]}")
        return line

    def close(self) -> None:
        """Stop the engine first and Holdfast last."""
        for what in reversed(list(self._running)):
            process = self._running.pop(what)
            process.terminate()
            try:
                process.communicate(timeout=STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def _holdfast(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "holdfast", *arguments]
