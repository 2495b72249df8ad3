"""Waiting for what heartbeats tell: each one that comes is a moment to look again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

Condition = Callable[[], bool]


class Heard:
    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], Condition] = {}

    def look(self) -> None:
        """A heartbeat has come."""
        for future, is_so in list(self._waiting.items()):
            if not future.done() and is_so():
                future.set_result(None)

    async def until(self, is_so: Condition, timeout_s: float) -> bool:
        """Return when this is so; whether it came in time."""
        if is_so():
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = is_so
        try:
            await asyncio.wait([future], timeout=timeout_s)
            return future.done()
        finally:
            del self._waiting[future]
            future.cancel()
