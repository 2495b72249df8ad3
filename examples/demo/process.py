"""Processes of the demo: started, killed, and never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

START_S_MAX = 20.0
STOP_S_MAX = 10.0


def stdin_closed() -> asyncio.Event:
    """Set when the parent of this process closes its stdin, or is gone."""
    closed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def readable() -> None:
        if not sys.stdin.buffer.read1(4096):  # type: ignore[union-attr]
            loop.remove_reader(sys.stdin)
            closed.set()

    loop.add_reader(sys.stdin, readable)
    return closed


class Worker:
    """A program in its own process. Closing its stdin tells it to end."""

    def __init__(self, module: str, *arguments: str, log: Path) -> None:
        self.log = log
        self._errors = log.with_suffix(".err").open("wb")
        command = [sys.executable, "-m", module, *arguments, str(log)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=self._errors, stderr=self._errors, start_new_session=True
        )

    @property
    def has_failed(self) -> bool:
        return bool(self._process.poll())

    @property
    def last_words(self) -> str:
        return self.log.with_suffix(".err").read_text(errors="replace")[-2000:]

    def ask_to_stop(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    def wait(self, seconds_max: float = STOP_S_MAX) -> None:
        self._process.wait(seconds_max)

    def kill(self) -> None:
        """Send SIGKILL to it and to all processes that it started."""
        for pid in (self._process.pid, *_session(self._process.pid)):
            _kill(pid)
        self._process.wait()
        for pid in _session(self._process.pid):  # what was being started meanwhile
            _kill(pid)
        self.ask_to_stop()
        self._errors.close()


def _session(leader: int) -> Iterator[int]:
    """The processes of a session, where the system tells: a program may start others in process groups of their own."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[3]) == leader:
            yield int(status.parent.name)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Server:
    """`holdfast serve` on one folder and one port, however often it is killed."""

    def __init__(self, data: Path, log: Path) -> None:
        self._data = data
        self._log = log.open("ab")
        self._process: subprocess.Popen[str] | None = None
        self.address = "127.0.0.1:0"

    @property
    def is_up(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, and wait until clients can connect."""
        command = [sys.executable, "-m", "holdfast", "serve", "--data", str(self._data), "--listen", self.address]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log, text=True, start_new_session=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("listening on "):
            raise RuntimeError(f"the server did not start; see {self._log.name}")
        self.address = line.removeprefix("listening on ").strip()

    def kill(self) -> None:
        """SIGKILL: no goodbye, nothing flushed, nothing closed."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None

    def close(self) -> None:
        self.kill()
        self._log.close()
