"""Several processes of one worker: started, started again when one dies, and ended together.

    holdfast work orders:worker --processes 4        this process ─▶ 4 × holdfast work orders:worker

A process that died is started again after a pause, which doubles while it goes on dying. SIGTERM and Ctrl-C end all of them in
good order; a second one ends them at once. With `reload`, all are started again when a Python file below this folder changes; a
process that refused to run, as after a syntax error, waits for that. A child whose parent was killed ends itself.

A process says through a pipe that it takes events. One that ended before has not begun:

    has begun, and ended        started again, for ever: an event may have killed it, and is given up by its worker in time
    has not begun               started again; the third time in a row, and while none of the others is at work, all are ended
                                with its exit code: a wrong URL, a missing right or an import error does not mend itself
"""

from __future__ import annotations

import logging
import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from holdfast.client.program import INTERRUPTED
from holdfast.worker.signals import LEFT

log = logging.getLogger("holdfast.worker")

LOOK_S = 0.2
PAUSE_FIRST_S = 1.0
PAUSE_LONGEST_S = 30.0
# A process that has lived so long was well: the next one is started at once.
WELL_AFTER_S = 60.0
# The exit code of a process that cannot run as it is.
REFUSED = 1
# A process that has ended so often in a row, before it took an event, is not started again.
FAILURES_MAX = 3
# As shells do: the exit code for a process that a signal ended is this and the number of the signal.
SIGNALLED = 128
READY_VARIABLE = "HOLDFAST_WORK_READY"
PARENT_VARIABLE = "HOLDFAST_WORK_PARENT"
# Folders in which nobody writes programs.
PASSED_OVER = {"__pycache__", "node_modules", "site-packages", "venv"}


class Child:
    """One process of the worker, in its lives."""

    def __init__(self, command: Sequence[str], number: int, *, waits_for_change: bool) -> None:
        self._command = command
        self.number = number
        self._waits_for_change = waits_for_change
        self._pause_s = PAUSE_FIRST_S
        self._begun = 0.0
        self._not_before = 0.0
        self._ready = -1  # the pipe by which it says that it takes events
        self.has_begun = False  # in this life
        self.failures = 0  # lives in a row that never began
        self.failed_with = 0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._begun = time.monotonic()
        self.has_begun = False
        self._forget_ready()
        self._ready, theirs = os.pipe()
        os.set_blocking(self._ready, False)
        variables = {PARENT_VARIABLE: str(os.getpid()), READY_VARIABLE: str(theirs)}
        try:
            self.process = subprocess.Popen(self._command, env={**os.environ, **variables}, pass_fds=(theirs,))
        finally:
            os.close(theirs)
        log.info("worker process %d runs as %d", self.number, self.process.pid)

    def _hear(self) -> None:
        """Note whether it has said that it takes events."""
        if self._ready < 0:
            return
        try:
            self.has_begun = bool(os.read(self._ready, 1))
        except BlockingIOError:
            return
        if self.has_begun:
            self.failures = 0
        self._forget_ready()

    def _forget_ready(self) -> None:
        if self._ready >= 0:
            os.close(self._ready)
        self._ready = -1

    def look(self) -> None:
        """Start it again if it has died, after its pause."""
        now = time.monotonic()
        if self.process is None:
            if now >= self._not_before:
                self.start()
            return
        code = self.process.poll()
        self._hear()
        if code is None:
            return
        self.process = None
        if not self.has_begun:
            self.failures, self.failed_with = self.failures + 1, code
        if code == REFUSED and self._waits_for_change:
            log.error("worker process %d could not run; it is started again when a file changes", self.number)
            self._not_before = math.inf
            return
        if now - self._begun > WELL_AFTER_S:
            self._pause_s = PAUSE_FIRST_S
        log.error("worker process %d ended with %d; it is started again in %g s", self.number, code, self._pause_s)
        self._not_before = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, PAUSE_LONGEST_S)

    def tell(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    @property
    def is_at_work(self) -> bool:
        """Whether it takes events, as far as it is known."""
        return self.has_begun and self.is_running

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def code(self) -> int | None:
        """The exit code of its last life."""
        return self.process.poll() if self.process is not None else None


class Processes:
    def __init__(self, command: Sequence[str], count: int, reload_below: Path | None = None) -> None:
        waits = reload_below is not None
        self._children = [Child(command, number, waits_for_change=waits) for number in range(1, count + 1)]
        self._reload_below = reload_below
        self._told = 0
        self._stamps: dict[Path, float] = {}

    def run(self) -> int:
        """Keep all of them running until SIGTERM or SIGINT; return the exit code when all have ended."""
        before = {number: signal.signal(number, self._tell) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self._stamps = dict(self._files())
            for child in self._children:
                child.start()
            while not self._told and not self._failed():
                time.sleep(LOOK_S)
                self._look()
            failed = None if self._told else self._failed()
            self._end()
            return self._exit_code() if failed is None else _give_up(failed)
        finally:
            for child in self._children:
                child.tell(signal.SIGKILL)
            for number, action in before.items():
                signal.signal(number, action)

    def _look(self) -> None:
        if self._told:  # and so were the children, if the whole group was: those that ended are not started again
            return
        if self._has_changed():
            self._restart()
        for child in self._children:
            child.look()

    def _failed(self) -> Child | None:
        """A process that does not begin, while none of the others is at work. With `reload`, a change may mend it."""
        if self._reload_below is not None or any(child.is_at_work for child in self._children):
            return None
        return next((child for child in self._children if child.failures >= FAILURES_MAX), None)

    def _tell(self, number: int, frame: FrameType | None) -> None:
        self._told += 1

    def _end(self) -> None:
        """Tell all to stop, and wait for them; a second signal kills those that are left."""
        for child in self._children:
            child.tell(signal.SIGTERM)
        while any(child.is_running for child in self._children) and self._told < 2:
            time.sleep(LOOK_S / 4)

    def _exit_code(self) -> int:
        if any(child.is_running for child in self._children):  # they are killed
            return INTERRUPTED
        return LEFT if any(child.code == LEFT for child in self._children) else 0

    def _restart(self) -> None:
        log.info("a file has changed: the worker is started again")
        self._end()
        for child in self._children:
            if not self._told:
                child.start()

    def _has_changed(self) -> bool:
        if self._reload_below is None:
            return False
        stamps = dict(self._files())
        is_new, self._stamps = stamps != self._stamps, stamps
        return is_new

    def _files(self) -> Iterator[tuple[Path, float]]:
        if self._reload_below is None:
            return
        for folder, names, files in os.walk(self._reload_below):
            names[:] = [name for name in names if not name.startswith(".") and name not in PASSED_OVER]
            for name in files:
                path = Path(folder, name)
                if path.suffix == ".py":
                    try:
                        yield path, path.stat().st_mtime
                    except OSError:
                        continue  # gone meanwhile


def _give_up(child: Child) -> int:
    log.error(
        "the worker does not run: process %d ended %d times in a row before it took an event, the last time with %d; the lines "
        "above say why. Mend that, and start the worker again",
        child.number, child.failures, child.failed_with,
    )  # fmt: skip
    return child.failed_with if child.failed_with > 0 else SIGNALLED - child.failed_with


def tell_parent() -> None:
    """Say that this process takes events, where a parent of several processes started it."""
    ready = os.environ.pop(READY_VARIABLE, "")
    if ready:
        os.write(int(ready), b"1")
        os.close(int(ready))


def end_with_parent() -> None:
    """End this process in good order when its parent is gone, where a parent of several processes started it."""
    parent = os.environ.pop(PARENT_VARIABLE, "")
    if not parent:
        return

    def watch() -> None:
        while os.getppid() == int(parent):
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="holdfast-parent", daemon=True).start()
