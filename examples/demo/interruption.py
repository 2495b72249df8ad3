"""Ctrl-C in a demo that has started processes."""

from __future__ import annotations

import signal
from types import FrameType

INTERRUPTED = 130  # the exit code


class Interrupted(Exception):
    """Somebody asked the demo to stop."""


class Interruption:
    """Signals are noted, and checked between steps: a signal while a process is being started would leave the process behind."""

    def __init__(self) -> None:
        self._is_asked = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._is_asked = True

    def check(self) -> None:
        if self._is_asked:
            raise Interrupted
