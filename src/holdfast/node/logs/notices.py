"""Notices: lines of the log for an operator, limited in number (`log_limit`).

    say(log, level, key, text)     logged at once, or folded into a line at the end of the interval

`text` makes the line, given how many notices it stands for. Nothing here waits or raises.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from holdfast.node.logs.log_limit import Line, LogLimit

# One line a second for each address of strangers.
STRANGERS_INTERVAL_S = 1.0
INTERVAL_S = 10.0
KEYS_MAX = 100


class _Notice(NamedTuple):
    log: logging.Logger
    level: int
    text: Callable[[int], str]


class Notices:
    def __init__(self, interval_s: float = INTERVAL_S, keys_max: int = KEYS_MAX) -> None:
        self._limit: LogLimit[_Notice] = LogLimit(interval_s, keys_max)
        self._timer: asyncio.TimerHandle | None = None

    def say(self, log: logging.Logger, level: int, key: str, text: Callable[[int], str], count: int = 1) -> None:
        loop = asyncio.get_running_loop()
        line = self._limit.note(key, _Notice(log, level, text), loop.time(), count)
        if line is not None:
            _write(line)
        self._set_timer(loop)

    def stop(self) -> None:
        """Log what is folded, and end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for line in self._limit.all():
            _write(line)

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        due_s = self._limit.due_s
        if self._timer is None and due_s is not None:
            self._timer = loop.call_at(due_s, self._say_due, loop)

    def _say_due(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        for line in self._limit.due(loop.time()):
            _write(line)
        self._set_timer(loop)


def _write(line: Line[_Notice]) -> None:
    notice, times, others = line
    more = f"; and {others:,} more of that kind elsewhere" if others else ""
    notice.log.log(notice.level, "%s%s", notice.text(times), more)


def folded(text: str) -> Callable[[int], str]:
    """A line that says how many others it stands for."""
    return lambda count: text if count == 1 else f"{text} (and {count - 1:,} more like it)"
