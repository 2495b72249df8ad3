"""Programs that tests start for a domain: servers, listeners and engines, each a process that says in a line when it is ready."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

TOP = Path(__file__).resolve().parents[1]
# What a killed program wrote is read so long. A child that left its group may hold the pipe for ever.
REST_S_MAX = 10.0


class Processes:
    """`start` gives the line that says a program is ready. All are ended with the context, the last first, and their children."""

    def __init__(self, folder: Path, holdfast: str) -> None:
        self.folder = folder
        self.holdfast = holdfast  # its URL
        self._running: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for name in reversed(list(self._running)):
            self.kill(name)

    def start(self, name: str, *command: str, ready: str = "") -> str:
        """Start a program, and wait for a line with `ready` in it, on stdout or stderr."""
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "HOLDFAST_URL": self.holdfast}
        process = self._running[name] = subprocess.Popen(
            [*command], cwd=TOP, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if ready in line:
                return line.strip()
        raise AssertionError(f"{name} ended without {ready!r}:\n{''.join(said)}")

    def kill(self, name: str) -> None:
        """Kill a program with its children."""
        process = self._running.pop(name)
        with suppress(ProcessLookupError):  # it ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=REST_S_MAX)
        assert process.stdout is not None
        process.stdout.close()

    def listener(self, domain: str, name: str, server: str) -> None:
        options = ["--domain", domain, "--server", server, "--name", name, "--store", str(self.folder / f"store-{name}")]
        self.start(f"listener-{name}", *holdfast("listener", *options), ready="has joined domain")

    def engine(self, domain: str) -> str:
        """Start an engine; the URL at which it takes requests."""
        said = self.start(
            "engine", *holdfast("engine", "--domain", domain, "--listen", "127.0.0.1:0"), ready="taking requests on"
        )
        return said.split()[-1]

    def domain(self, name: str, *options: str) -> None:
        subprocess.run(holdfast("domain", "create", name, "--url", self.holdfast, *options), check=True, capture_output=True)

    def behind_engine(self, domain: str, *servers: str) -> str:
        """A listener for each server, and an engine before them; its URL."""
        for number, server in enumerate(servers):
            self.listener(domain, f"s{number}", server)
        return self.engine(domain)


def holdfast(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "holdfast", *arguments]


def port_in(line: str) -> int:
    found = re.search(r"(?:port |:)(\d+)", line)
    assert found is not None, line
    return int(found[1])
