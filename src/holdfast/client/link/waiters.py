"""Callers that wait for a change. Each is woken by the next `wake`, and then looks itself whether it has to wait again.

while not is_done():
    await waiters.wait(deadline)
"""

from __future__ import annotations

import asyncio


class Waiters(list[asyncio.Future[None]]):
    """A list, so that it costs no call to see whether anybody waits."""

    __slots__ = ()

    async def wait(self, deadline: float | None = None) -> None:
        """Wait for the next `wake`. TimeoutError when the deadline, by the loop's clock, is over first."""
        future = asyncio.get_running_loop().create_future()
        self.append(future)
        try:
            async with asyncio.timeout_at(deadline):
                await future
        except BaseException:
            if future in self:
                self.remove(future)
            raise

    def wake(self) -> None:
        for future in self:
            if not future.done():
                future.set_result(None)
        self.clear()
