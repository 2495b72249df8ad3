"""Merged receivers: one receiver in each channel, as one, for a pattern or the dead queue of several message managers (B15).

    receiver m1 ─ buffer ─┐
    receiver m2 ─ buffer ─┴─▶ whichever has an event, in turn ─▶ the program

Each receives, holds and decides for itself; an event knows the one it came through. Order holds within a channel. While one has a
run of events in hand it goes on; then the next has its turn, so that none waits for a flood of another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.errors import TimedOut

if TYPE_CHECKING:
    from holdfast.client.receiving.receiver import Receiver


class MergedReceivers:
    def __init__(self, receivers: Sequence[Receiver]) -> None:
        self._receivers = list(receivers)  # the next in turn first
        self._last: Receiver | None = None

    async def ready(self, timeout: float | None) -> Receiver:
        """Return a receiver that has an event to take. TimedOut when none has one in time; Closed when one was closed."""
        last = self._last
        if last is not None:
            if last.has_run:
                return last
            last.mode.finish(is_done=True)  # the program asks for the next: what it has in hand is decided
            self._receivers.remove(last)
            self._receivers.append(last)
        for each in self._receivers:
            if await _has_one(each, 0):
                break
        else:
            each = await self._first(timeout)
        self._last = each
        return each

    async def _first(self, timeout: float | None) -> Receiver:
        waiting = {asyncio.ensure_future(_has_one(each, None)): each for each in self._receivers}
        try:
            done, _ = await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            if not done:
                raise TimedOut(f"no event of {self._receivers[0].destination!r} came within {timeout:g} s")
            return next(waiting[task] for task in waiting if task in done)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)


async def _has_one(receiver: Receiver, timeout: float | None) -> bool:
    try:
        await receiver.until_one_is_here(timeout)
    except TimedOut:
        return False
    return True
