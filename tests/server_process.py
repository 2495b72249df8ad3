"""A real server process that a test starts, stops, kills, and starts again on the same folder and port."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

START_S_MAX = 30
# A new journal is written with zeros before its first event. Most tests need little of one, and there are thousands of them.
SMALL = {"journal_size": "128M", "segment_size": "4M", "reserve": "2M"}
SMALL_QUERY = "?" + "&".join(f"{name}={size}" for name, size in SMALL.items())


def free_port() -> int:
    """Find a port that the system gives to nobody by itself: another test's connection could have it before the server starts."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def _small(options: tuple[str, ...]) -> list[str]:
    """Small sizes, where the test says nothing of sizes."""
    if any(option.startswith("--journal-size") for option in options):
        return []
    return [part for name, size in SMALL.items() for part in (f"--{name.replace('_', '-')}", size)]


class ServerProcess:
    def __init__(self, data: Path, *options: str, limits: Callable[[], None] | None = None) -> None:
        self.data = data
        self.port = free_port()
        self._options = (*_small(options), *options)
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._log = (data.parent / f"{data.name}.log").open("ab")

    def __enter__(self) -> ServerProcess:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()
        self._log.close()

    @property
    def url(self) -> str:
        return f"holdfast://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return Path(self._log.name).read_text(errors="replace")

    def start(self) -> float:
        """Start it and wait until it takes connections; how many seconds that took."""
        began = time.monotonic()
        command = [
            sys.executable,
            "-m",
            "holdfast",
            "serve",
            "--data",
            str(self.data),
            "--listen",
            f"127.0.0.1:{self.port}",
            *self._options,
        ]
        self._process = subprocess.Popen(
            command, stdout=self._log, stderr=self._log, stdin=subprocess.DEVNULL, preexec_fn=self._limits, env={**os.environ}
        )
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return time.monotonic() - began
            except OSError:
                assert self._process.poll() is None, f"the server ended with {self._process.returncode}:\n{self.log[-3000:]}"
                assert time.monotonic() - began < START_S_MAX, f"the server does not listen:\n{self.log[-3000:]}"
                time.sleep(0.01)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        assert self._process is not None
        self._process.terminate()
        code = self._process.wait(timeout=30)
        self._process = None
        return code

    def limit(self, what: int, soft: int) -> None:
        """Set a resource limit of the running process, such as RLIMIT_FSIZE; -1 for none."""
        resource.prlimit(self.pid, what, (soft, resource.RLIM_INFINITY))

    def memory_mb(self) -> float:
        """Its anonymous memory: what it holds itself, without the page cache of its files."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")) / 1024
