"""Callers that wait for a change. Each is woken by the next `wake`, and then looks itself whether it has to wait again.

while not is_done():
    await waiters.wait(deadline)

One change nobody is told of: that the server gives up a receiver whose link is lost. `until_given_up` waits for that.
"""

from __future__ import annotations

import asyncio

from holdfast.errors import SubscriptionInUse

# A subscription that has one receiver, whose link is lost, is asked for again after this.
IN_USE_AGAIN_S = 0.1


async def until_given_up(problem: SubscriptionInUse, deadline: float) -> None:
    """Wait a little if the present receiver has lost its link: the server soon gives it up, unless it comes back."""
    if not problem.fields.get("is_holder_away") or asyncio.get_running_loop().time() + IN_USE_AGAIN_S >= deadline:
        raise problem
    await asyncio.sleep(IN_USE_AGAIN_S)


class Waiters(list[asyncio.Future[None]]):
    """A list, so that it costs no call to see whether anybody waits."""

    __slots__ = ()

    async def wait(self, deadline: float | None = None) -> None:
        """Wait for the next `wake`. TimeoutError when the deadline, by the loop's clock, is over first."""
        future = asyncio.get_running_loop().create_future()
        self.append(future)
        try:
            if deadline is None:
                await future
                return
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
