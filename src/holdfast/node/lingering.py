"""A pause that somebody may cut short. Where nobody waits for what is applied, a producer that sends one by one is not held up by
each event's being applied before its next."""

from __future__ import annotations

import asyncio


class Lingering:
    def __init__(self) -> None:
        self._over: asyncio.Future[None] | None = None

    async def pause(self, seconds: float) -> None:
        """Until it is over, or somebody is in a hurry."""
        loop = asyncio.get_running_loop()
        self._over = loop.create_future()
        timer = loop.call_later(seconds, self.hurry)
        try:
            await self._over
        finally:
            timer.cancel()

    def hurry(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)
