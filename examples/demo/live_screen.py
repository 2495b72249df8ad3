"""The base of the screens of the demos: a live picture on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table


class LiveScreen:
    def __init__(self, *, refresh_per_second: int, plain_every_s: float) -> None:
        """`plain_every_s`: seconds between two plain lines, where there is no terminal."""
        self._console = Console(highlight=False)
        self._began = time.monotonic()
        self._notes: list[str] = []
        self._plain_every_s = plain_every_s
        self._printed_at = 0.0
        self._live = Live(console=self._console, refresh_per_second=refresh_per_second) if self._console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def note(self, sentence: str) -> None:
        """Print a line about something that happened."""
        line = f"{time.monotonic() - self._began:5.1f} s  {sentence}"
        self._notes.append(line)
        if self._live is None:
            self._console.print(line, soft_wrap=True)

    def update(self, picture: Callable[[], Table], line: Callable[[], str]) -> None:
        """Show the state: as a picture on a terminal, as a line from time to time anywhere else."""
        if self._live is not None:
            self._live.update(picture())
        elif time.monotonic() - self._printed_at >= self._plain_every_s:
            self._printed_at = time.monotonic()
            self.note(line())
