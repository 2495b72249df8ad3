"""A real process of a `holdfast` command that a test starts, signals, kills, and starts again; its output goes to a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Self


class HoldfastProcess(ABC):
    """A context that starts it, and kills it at the end."""

    PROGRAM: tuple[str, ...] = ("-m", "holdfast")

    def __init__(self, log: Path, limits: Callable[[], None] | None = None) -> None:
        """`limits` is called in the new process, before the command begins."""
        self._limits = limits
        self._log = log.open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _arguments(self) -> list[str]:
        """The command and its options, at each start."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()
        self._log.close()

    @property
    def log(self) -> str:
        return Path(self._log.name).read_text(errors="replace")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_over(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def start(self) -> float:
        """Start it, and wait as `_until_started` says; how many seconds that took."""
        began = time.monotonic()
        command = [sys.executable, *self.PROGRAM, *self._arguments()]
        self._process = subprocess.Popen(
            command, stdout=self._log, stderr=self._log, stdin=subprocess.DEVNULL, preexec_fn=self._limits, env={**os.environ}
        )
        self._until_started()
        return time.monotonic() - began

    def _until_started(self) -> None:
        """Wait for whatever a test may rely on after a start; here only for the process to be there."""
        assert self._process is not None

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

    def memory_mb(self, what: str = "RssAnon") -> float:
        """Its anonymous memory in MiB: what it holds itself, without the page cache of its files; or another figure of the
        kernel, such as VmHWM for the most that it ever had."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(what)) / 1024
