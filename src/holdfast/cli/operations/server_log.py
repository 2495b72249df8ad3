"""The log of a server on stderr. The server never waits for it.

A pipe or a terminal that nobody reads takes some 64 KiB, then its writer waits: the server would stand still. A line that does
not fit is dropped instead, and the next line that fits says how many were.
"""

from __future__ import annotations

import logging
import select
import sys
from typing import TextIO

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# A pipe that has room has room for a page: so many characters, of four bytes at most.
PIECE_CHARACTERS = 1_000


class _Stderr(logging.StreamHandler[TextIO]):
    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record) + self.terminator
            if self._dropped:
                text = f"(lines of the log that nobody read, and that were dropped: {self._dropped:,}){self.terminator}{text}"
            for at in range(0, len(text), PIECE_CHARACTERS):
                if not _has_room():
                    self._dropped += 1
                    return
                self.stream.write(text[at : at + PIECE_CHARACTERS])
                self.stream.flush()
            self._dropped = 0
        except Exception:
            self.handleError(record)


def begin(level: str) -> None:
    handler = _Stderr()
    handler.setFormatter(logging.Formatter(FORMAT))
    logging.basicConfig(level=level.upper(), handlers=[handler])


def _has_room() -> bool:
    """Whether a write would not wait. A file always has room."""
    try:
        return bool(select.select((), (sys.stderr,), (), 0)[1])
    except (OSError, ValueError):  # stderr is closed, or a stand-in that is no file
        return True
