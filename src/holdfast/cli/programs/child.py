"""Children: programs that `holdfast serve` starts beside itself, as `--actions` and `--relay` say, and those of a cluster that
`holdfast cluster up` runs.

    starts it ─▶ it ends by itself ─▶ started again after 0.5 s, 1 s, 2 s … 30 s; from the beginning if it lived for a minute
    the server stops ─▶ SIGTERM ─▶ after a while SIGKILL
    the server dies ─▶ the kernel kills it: it has asked for that before anything else (`die_with_parent`)

A child is a process of its own: what it does cannot hold up the server. It reaches the server as any client does, at
HOLDFAST_URL. The log tells each start and end, and `holdfast status` has a row for each child.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping, MutableSequence, Sequence
from functools import partial
from pathlib import Path
from typing import Any

log = logging.getLogger("holdfast.children")

PARENT = "HOLDFAST_PARENT"
PR_SET_PDEATHSIG = 1
PAUSE_S, PAUSE_S_MAX = 0.5, 30.0
# A child that lived for so long was well: the next pause is the first again.
WELL_S = 60.0
# How long a child may take to stop.
GRACE_S = 15.0


class ChildProgram:
    """One child. `shown` is its row in the status of the server."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path | None = None) -> None:
        """With a `log`, it writes there, and is in a session of its own: Ctrl-C does not reach it."""
        self.name = name
        self._log = log
        self._command = list(command)
        self._environment = dict(environment)
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self.shown: dict[str, Any] = {"program": name, "state": "starting", "pid": None, "restarts": 0, "reason": ""}

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep(), name=f"keeping {self.name}")

    async def _keep(self) -> None:
        """Start it again whenever it has ended."""
        pause_s = PAUSE_S
        while True:
            began_s = time.monotonic()
            reason = await self._live()
            pause_s = PAUSE_S if time.monotonic() - began_s > WELL_S else pause_s
            log.warning("%s ended (%s); it is started again in %g s", self.name, reason, pause_s)
            self.shown.update(state="waiting", pid=None, reason=reason, restarts=self.shown["restarts"] + 1)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_S_MAX)

    async def _live(self) -> str:
        """One life of it: how it ended."""
        try:
            process = self._process = await self._begin()
        except OSError as problem:
            return f"it cannot be started: {problem.strerror}"
        log.info("%s runs as process %d", self.name, process.pid)
        self.shown.update(state="running", pid=process.pid)
        code = await process.wait()
        self._process = None
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    async def _begin(self) -> asyncio.subprocess.Process:
        environment = {**self._environment, PARENT: str(os.getpid())}
        start = partial(asyncio.create_subprocess_exec, *self._command, stdin=asyncio.subprocess.DEVNULL, env=environment)
        if self._log is None:
            return await start(stdout=sys.stderr.fileno())
        with self._log.open("ab") as log:
            return await start(stdout=log, stderr=log, start_new_session=True)

    async def close(self) -> None:
        """Stop it, and wait until it is gone."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        process, self._process = self._process, None
        self.shown.update(state="stopped", pid=None)
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(GRACE_S):
                await process.wait()
        except TimeoutError:
            log.warning("%s does not stop, and is killed", self.name)
            process.kill()
            await process.wait()


class Children:
    """The children of a server."""

    def __init__(self, children: Sequence[ChildProgram]) -> None:
        self._children = list(children)

    def start(self, shown: MutableSequence[dict[str, Any]]) -> None:
        """Start them, and add their rows to what the status of the server shows."""
        for child in self._children:
            shown.append(child.shown)
            child.start()

    async def close(self) -> None:
        await asyncio.gather(*(child.close() for child in self._children))


def holdfast_command(*arguments: str) -> list[str]:
    """A command of Holdfast, run by the same Python."""
    return [sys.executable, "-m", "holdfast", *arguments]


def guarded_command(program: str, *arguments: str) -> list[str]:
    """A command of a program that knows nothing of Holdfast, which dies with its parent all the same."""
    begin = f"import os, sys; from {__name__} import die_with_parent; die_with_parent(); os.execv(sys.argv[1], sys.argv[1:])"
    return [sys.executable, "-c", begin, program, *arguments]


def environment_of(url: str) -> dict[str, str]:
    """The environment of a child: it finds the server at HOLDFAST_URL, unless that says where already, such as with a user."""
    return {"HOLDFAST_URL": url, **os.environ}


def die_with_parent() -> None:
    """In a child: have the kernel kill this process when the server that started it dies."""
    parent = os.environ.pop(PARENT, "")
    if not parent.isdigit():
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):  # it died before the kernel was asked
        os.kill(os.getpid(), signal.SIGKILL)
