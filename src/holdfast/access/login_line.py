"""The line of logins that wait for their turn: bounded in count and in bytes, oldest first. Pure.

A login that does not fit is told to come again; one that has hung up is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Attempt = TypeVar("Attempt", bound=Hashable)

# Ten seconds of password checks: a login that would wait longer is refused at once.
LENGTH_MAX = 500
# Bytes of names and passwords: an honest login has a few dozen.
BYTES_MAX = 1 << 20


class LoginLine(Generic[Attempt]):
    def __init__(self, length_max: int = LENGTH_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._length_max = length_max
        self._bytes_max = bytes_max
        self._waiting: dict[Attempt, int] = {}  # bytes, in order of arrival
        self._bytes = 0

    def join(self, attempt: Attempt, size_bytes: int) -> bool:
        """Join the line; return whether there was room."""
        if len(self._waiting) >= self._length_max or self._bytes + size_bytes > self._bytes_max:
            return False
        self._waiting[attempt] = size_bytes
        self._bytes += size_bytes
        return True

    def leave(self, attempt: Attempt) -> None:
        """Leave the line: it is taken, or has hung up."""
        self._bytes -= self._waiting.pop(attempt, 0)

    def next(self, may_begin: Callable[[Attempt], bool]) -> Attempt | None:
        """Take the attempt that has waited longest among those that may begin."""
        found = next((attempt for attempt in self._waiting if may_begin(attempt)), None)
        if found is not None:
            self.leave(found)
        return found

    def clear(self) -> None:
        self._waiting.clear()
        self._bytes = 0
