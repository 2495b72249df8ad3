"""Waiters for entries to be applied, and the pause in which entries that nobody waits for gather.

    add(entry) ──▶ a future, done when the entry is applied
    pause      ──▶ ends after its time, or at once when somebody waits (`hurry`)

Entries that nobody waits for are applied together after a pause: a producer that sends one event after the other is then not held
up by the applying of each.
"""

from __future__ import annotations

import asyncio


class ApplyWaiters:
    def __init__(self) -> None:
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._pause: asyncio.Future[None] | None = None

    @property
    def are_waiting(self) -> bool:
        return bool(self._waiting)

    def add(self, entry: int) -> asyncio.Future[None]:
        """A future that is done when this entry is applied. A pause ends."""
        self.hurry()
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, reached))
        return reached

    def applied(self, entry: int) -> None:
        """Wake those who wait for this entry or an earlier one."""
        for _, reached in [each for each in self._waiting if each[0] <= entry and not each[1].done()]:
            reached.set_result(None)
        self._waiting = [each for each in self._waiting if each[0] > entry]

    async def pause(self, seconds: float) -> None:
        """Return after this time, or when somebody is in a hurry."""
        loop = asyncio.get_running_loop()
        self._pause = loop.create_future()
        timer = loop.call_later(seconds, self.hurry)
        try:
            await self._pause
        finally:
            timer.cancel()

    def hurry(self) -> None:
        """End the pause, if there is one."""
        if self._pause is not None and not self._pause.done():
            self._pause.set_result(None)
