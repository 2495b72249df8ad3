"""Readiness: whether a server takes events and delivers them: replayed, its journal not full, its disk answering."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from holdfast.node.node import Node

PROBE_FILE = "probe"
# A disk that takes longer than this to write and sync a few bytes does not answer.
ANSWER_S_MAX = 2.0
# An answer counts for so long, so that those who ask often do not keep the disk busy.
KNOWN_S = 1.0


class Readiness:
    def __init__(self, node: Node, data: Path) -> None:
        self._node = node
        self._disk = DiskProbe(data / PROBE_FILE)

    async def problems(self) -> list[str]:
        """Why the server is not ready; empty when it is."""
        messages, pressure = self._node.messages, self._node.channel.pressure
        found = []
        if messages.failure is not None:
            found.append(messages.failure.sentence)
        elif not messages.is_primary:
            found.append("the journal is being replayed; events are accepted, and delivered afterwards")
        if pressure.is_short and not pressure.events_reserve_bytes:
            found.append(f"the journal is full ({pressure.reason}); recipients must confirm, or it must be given more room")
        disk = await self._disk.problem()
        return [*found, disk] if disk else found

    def close(self) -> None:
        self._disk.close()


class DiskProbe:
    """Writes a few bytes into a file of its own, and syncs them, in a thread: a disk that hangs holds up nobody else."""

    def __init__(self, path: Path, answer_s_max: float = ANSWER_S_MAX) -> None:
        self._path = path
        self._answer_s_max = answer_s_max
        self._thread = ThreadPoolExecutor(1, "disk-probe")
        self._asking: asyncio.Future[str] | None = None
        self._known_until = 0.0
        self._known = ""

    async def problem(self) -> str:
        """What is wrong with the disk; "" when it answers."""
        loop = asyncio.get_running_loop()
        if self._asking is None:
            if loop.time() < self._known_until:
                return self._known
            self._asking = loop.run_in_executor(self._thread, self._write)
        done, _ = await asyncio.wait({self._asking}, timeout=self._answer_s_max)
        if not done:
            return f"the disk has not answered for {self._answer_s_max:g} s"
        if self._asking is not None and self._asking.done():
            self._known, self._asking = self._asking.result(), None
            self._known_until = loop.time() + KNOWN_S
        return self._known

    def _write(self) -> str:
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(file, f"{time.time_ns():020}\n".encode(), 0)
                os.fdatasync(file)
            finally:
                os.close(file)
        except OSError as problem:
            return f"the disk refuses to be written ({problem.strerror})"
        return ""

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
