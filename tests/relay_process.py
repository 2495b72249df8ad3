"""A real relay process that a test starts, stops, kills, and starts again with the same file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.waiting import wait_until


class RelayProcess:
    def __init__(self, file: Path, definition: str, *options: str) -> None:
        self.file = file
        self._options = options
        file.write_text(definition)
        self._log = file.with_suffix(".log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> RelayProcess:
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

    def start(self) -> None:
        """Start it; it goes to work in its own time."""
        command = [sys.executable, "-m", "holdfast", "relay", "--config", str(self.file), *self._options]
        self._process = subprocess.Popen(
            command, stdout=self._log, stderr=self._log, stdin=subprocess.DEVNULL, env={**os.environ}
        )

    def until_started(self) -> None:
        wait_until(lambda: "has its journal at" in self.log or self.is_over, "the relay has started")
        assert not self.is_over, self.log[-3000:]

    @property
    def is_over(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def memory_most_mb(self) -> float:
        """The most memory it has ever had, in MiB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024

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
