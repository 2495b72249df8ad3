"""The lives of `killed_query`: driver, JVM and Python workers, of which a test kills one or all, or stops all for a while."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

# Under the load of the other tests, on few cores, a session may take a minute to start.
PATIENCE_S = 480
# How Spark's Python processes are called. Executors' workers are forks of a daemon of the same name, one for each task at a time;
# the source's lives on the driver as long as the query.
EXECUTOR = "pyspark.daemon pyspark.worker"
SOURCE = "pyspark.sql.streaming.python_streaming_source_runner"


class Life:
    """One run of the program; for `options` see there."""

    def __init__(self, target: str, url: str, folder: Path, log: Path, *options: str) -> None:
        self._checkpoint = folder / "checkpoint"
        self._log = log.open("ab")
        command = [sys.executable, "-m", "tests.spark.killed_query", target, url, str(folder), *options]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, start_new_session=True)

    def __enter__(self) -> Life:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._log.close()

    def batches(self) -> int:
        """How many batches of the query are committed, in all lives."""
        numbers = [int(each.name) for each in (self._checkpoint / "commits").glob("[0-9]*") if each.name.isdigit()]
        return max(numbers, default=-1) + 1

    def wait_for(self, batches: int) -> None:
        """So many more batches are committed."""
        wanted = self.batches() + batches
        self.wait_until(lambda: self.batches() >= wanted, f"{wanted} batches are committed")

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """While it lives."""
        patience = time.monotonic() + PATIENCE_S
        while not condition():
            assert self._process.poll() is None, f"it ended by itself:\n{self.log()}"
            assert time.monotonic() < patience, f"it never came about that {what}:\n{self.log()}"
            time.sleep(0.01)

    def workers(self, purpose: str = EXECUTOR) -> list[int]:
        """Python processes of Spark for that purpose, but not the daemon that forks them."""
        found = {pid: parent for pid, parent in self._processes() if purpose in _command(pid)}
        return [pid for pid, parent in found.items() if purpose != EXECUTOR or parent in found]

    def kill(self) -> None:
        """All of its session: the driver, the JVM, and the workers, which have process groups of their own."""
        self._signal(signal.SIGKILL)
        while any(self._processes()):
            self._signal(signal.SIGKILL)
            self._process.poll()
        self._process.wait()

    def stop(self) -> None:
        """Nothing of it moves any more until it is killed, or goes on."""
        self._signal(signal.SIGSTOP)
        while any(_state(pid) not in "TtZX" for pid, _ in self._processes()):
            self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        """It ends by itself, well."""
        assert self._process.wait(PATIENCE_S) == 0, self.log()

    def log(self) -> str:
        return Path(self._log.name).read_text(errors="replace")[-6000:]

    def _signal(self, number: signal.Signals) -> None:
        for pid, _ in self._processes():
            kill(pid, number)

    def _processes(self) -> Iterator[tuple[int, int]]:
        """Those of its session that live, each with its parent."""
        for entry in Path("/proc").iterdir():
            fields = _status(int(entry.name)) if entry.name.isdigit() else []
            if fields and int(fields[3]) == self._process.pid and fields[0] not in "ZX":
                yield int(entry.name), int(fields[1])


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> bool:
    """Whether there was such a process."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _status(pid: int) -> list[str]:
    """State, parent, group, session, …; nothing of a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _state(pid: int) -> str:
    return next(iter(_status(pid)), "X")


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
