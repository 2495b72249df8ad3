"""Signals tell a worker to stop, and see to it that the process ends.

    SIGTERM, Ctrl-C          stop in good order
    the same once more       end at once, also where a handler blocks the loop
    the grace and more ago   end at once: a handler, a hook or a thread keeps the process from ending by itself

Ctrl-C reaches all processes of a terminal, and their parent then sends SIGTERM: these two are one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

log = logging.getLogger("holdfast.worker")

# The exit code of a process that left a handler at work.
LEFT = 6


class Signals:
    """Hears SIGTERM and SIGINT while it is entered. They are as they were afterwards."""

    def __init__(self, tell: Callable[[], None], arm: Callable[[], None] | None = None) -> None:
        """`tell` is called in the loop, once; `arm` before, where the signal is heard, also while the loop stands still."""
        self._tell = tell
        self._arm = arm
        self._loop = asyncio.get_running_loop()
        self._before: dict[int, Any] = {}
        self._heard: set[int] = set()

    def __enter__(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(ValueError):  # not the main thread
                self._before[number] = signal.signal(number, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if number in self._heard:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        if not self._heard and self._arm is not None:
            self._arm()
        if not self._heard:
            self._loop.call_soon_threadsafe(self._tell)
        self._heard.add(number)

    def __exit__(self, *exc: object) -> None:
        for number, action in self._before.items():
            signal.signal(number, action)


class Backstop:
    """Ends the process so many seconds after it was armed, unless it is cancelled."""

    def __init__(self, seconds: float, what: Callable[[], str]) -> None:
        """`what` names what still runs, for the log."""
        self._seconds = min(seconds, threading.TIMEOUT_MAX)
        self._what = what
        # A signal may arm it anywhere, also where this thread holds a lock: this queue has none that would matter.
        self._told: queue.SimpleQueue[bool] = queue.SimpleQueue()
        threading.Thread(target=self._watch, name="holdfast-backstop", daemon=True).start()

    def arm(self) -> None:
        self._told.put(True)

    def cancel(self) -> None:
        self._told.put(False)

    def _watch(self) -> None:
        with suppress(queue.Empty):
            if self._told.get():
                self._told.get(timeout=self._seconds)
            return
        log.critical("the process does not end by itself, and is ended now: %s", self._what())
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # closed, or nobody reads it
                stream.flush()
        os._exit(LEFT)
