"""How much of all stages of a session may be on its way: first come, first served.

The server bears twice as many parts of a session; the other half is for its transactions and large events (`parts`).
"""

from __future__ import annotations

import asyncio
from collections import deque

from holdfast.errors import TimedOut

PARTS_MAX = 16
# Enough that the next parts are on the wire while the disk has one; what else the session sends waits for no more than these.
BYTES_MAX = 4 << 20


class Window:
    def __init__(self) -> None:
        self._parts = 0
        self._bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def enter(self, size: int, deadline: float) -> None:
        """Wait until a part of so many bytes may go. TimedOut when that takes longer."""
        if not self._waiting and self._has_room_for(size):
            self._take(size)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            async with asyncio.timeout_at(deadline):
                await turn
        except BaseException as problem:
            self._withdraw(size, turn)
            if isinstance(problem, TimeoutError):
                raise TimedOut("too much is on its way, and nothing of it was receipted in time; nothing was sent") from problem
            raise

    def _withdraw(self, size: int, turn: asyncio.Future[None]) -> None:
        """Its turn is given to the next."""
        if (size, turn) in self._waiting:
            self._waiting.remove((size, turn))
        elif turn.done() and not turn.cancelled():
            self.leave(size)

    def leave(self, size: int) -> None:
        """A part is receipted, or given up."""
        self._parts -= 1
        self._bytes -= size
        while self._waiting and self._has_room_for(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._take(size)
                turn.set_result(None)

    def _has_room_for(self, size: int) -> bool:
        return not self._parts or (self._parts < PARTS_MAX and self._bytes + size <= BYTES_MAX)

    def _take(self, size: int) -> None:
        self._parts += 1
        self._bytes += size
