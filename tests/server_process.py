"""A real server process that a test starts, stops, kills, and starts again on the same folder and port."""

from __future__ import annotations

import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

from examples.free_port import free_port as free_port  # for tests, too
from tests.holdfast_process import HoldfastProcess

START_S_MAX = 30
# A new journal is written with zeros before its first event. Most tests need little of one, and there are thousands of them.
SMALL = {"journal_size": "128M", "segment_size": "4M", "reserve": "2M"}
SMALL_QUERY = "?" + "&".join(f"{name}={size}" for name, size in SMALL.items())


def _small(options: tuple[str, ...]) -> list[str]:
    """Small sizes, where the test says nothing of sizes."""
    if any(option.startswith("--journal-size") for option in options):
        return []
    return [part for name, size in SMALL.items() for part in (f"--{name.replace('_', '-')}", size)]


class ServerProcess(HoldfastProcess):
    def __init__(self, data: Path, *options: str, limits: Callable[[], None] | None = None) -> None:
        self.data = data
        self.port = free_port()
        self._options = (*_small(options), *options)
        super().__init__(data.parent / f"{data.name}.log", limits)

    def _arguments(self) -> list[str]:
        return ["serve", "--data", str(self.data), "--listen", f"127.0.0.1:{self.port}", *self._options]

    @property
    def url(self) -> str:
        return f"holdfast://127.0.0.1:{self.port}"

    def _until_started(self) -> None:
        """Until it takes connections."""
        began = time.monotonic()
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert not self.is_over, f"the server ended:\n{self.log[-3000:]}"
                assert time.monotonic() - began < START_S_MAX, f"the server does not listen:\n{self.log[-3000:]}"
                time.sleep(0.01)

    def reload(self) -> None:
        """Have it read users and certificate again; it says so in its log."""
        os.kill(self.pid, signal.SIGHUP)

    def limit(self, what: int, soft: int) -> None:
        """Set a resource limit of the running process, such as RLIMIT_FSIZE; -1 for none."""
        resource.prlimit(self.pid, what, (soft, resource.RLIM_INFINITY))
