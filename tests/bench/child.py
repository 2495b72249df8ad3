"""A child process: started with its output in a file, awaited until it answers, stopped for certain."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.bench.peer import CannotRun

START_SECONDS = 60.0
STOP_SECONDS = 15.0


def program(name: str, *folders: str) -> str:
    """Where a program is: beside this Python, in these folders, or on the path."""
    places = os.pathsep.join((str(Path(sys.executable).parent), *folders, os.environ.get("PATH", "")))
    found = shutil.which(name, path=places)
    if found is None:
        raise CannotRun(f"{name} is not installed")
    return found


class Child:
    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self._output = folder / "output.txt"
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        """Ask until it answers; CannotRun with the end of its output when it dies or stays silent."""
        deadline = time.monotonic() + START_SECONDS
        while not is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise CannotRun(f"{self._process.args!r} did not start: {self.last_words()}")
            time.sleep(0.05)

    def last_words(self) -> str:
        return self._output.read_text(errors="replace").strip()[-600:]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()


def accepts_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def anonymous_memory_bytes(pid: int) -> int:
    """What a process keeps in memory of its own: page cache and mapped files do not count."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise CannotRun("this kernel does not tell RssAnon")
