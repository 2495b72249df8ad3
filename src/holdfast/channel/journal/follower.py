"""A reader of the journal that has everything so far, and waits for more."""

from __future__ import annotations

import asyncio

from holdfast.channel.channel import AtOnce
from holdfast.channel.journal.tail import TailCache

# Entries that are offered at once; more of them are read in the usual way.
OFFERED_MAX = 64


class Follower:
    """It is told of what is new by `offer`: either it takes it there, or it is woken and reads from `next` on."""

    def __init__(self, start: int, at_once: AtOnce | None) -> None:
        self.next = start
        self._at_once = at_once
        self._more: asyncio.Future[None] | None = None

    async def wait(self, loop: asyncio.AbstractEventLoop) -> None:
        """Until there is more than it has taken; raises what `at_once` raised."""
        self._more = loop.create_future()
        try:
            await self._more
        finally:
            self._more = None

    def offer(self, tail: TailCache) -> None:
        """There is more."""
        if self._at_once is None or self._more is None or self._more.done():
            self.wake()
            return
        run = tail.run(self.next, OFFERED_MAX)
        try:
            is_taken = bool(run) and run[-1].number + 1 == tail.next_entry and self._at_once(run)
        except Exception as problem:
            if not self._more.done():  # otherwise nobody waits any more
                self._more.set_exception(problem)
            return
        if is_taken:
            self.next = run[-1].number + 1
        else:
            self.wake()

    def wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)
