"""Growth: spare segments are made ahead of need, and whoever watches hears when space is short, and when it is so no more.

tend ─▶ a spare is wanted?        make it, in a thread of its own ─▶ tend again
     ─▶ space is short?           look again in a second
     ─▶ that was not so before?   tell the watchers
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from holdfast.channel.channel import Pressure
from holdfast.channel.journal.journal import Journal

# How soon a blocked journal looks for space again.
TEND_S = 1.0


class Growth:
    def __init__(self, journal: Journal) -> None:
        self.under_way: asyncio.Future[None] | None = None  # done when the spare that is being made can be used
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._watchers: list[Callable[[Pressure], None]] = []
        self._growing = ThreadPoolExecutor(1, "journal-grower")
        self._tending: asyncio.TimerHandle | None = None
        self._was_short = journal.is_short
        self._is_stopped = False

    def watch(self, changed: Callable[[Pressure], None]) -> None:
        self._watchers.append(changed)

    def tend(self) -> None:
        """Make a spare ahead of need, and tell watchers when space became short or is so no more."""
        if self._is_stopped:
            return
        if self.under_way is None and self._journal.wants_growth:
            self.under_way = asyncio.ensure_future(self._grow())
        is_short = self._journal.is_short
        if is_short and self._tending is None:
            self._tending = self._loop.call_later(TEND_S, self._tend_again)
        if is_short != self._was_short:
            self._was_short = is_short
            for changed in self._watchers:
                changed(self._journal.pressure)

    def _tend_again(self) -> None:
        self._tending = None
        self.tend()

    async def _grow(self) -> None:
        try:
            self._journal.adopt(await self._loop.run_in_executor(self._growing, self._journal.make_segment))
        except Exception as problem:  # no room, no memory, or a fault of our own: nobody must be left waiting for it
            self._journal.could_not_grow(problem)
        self.under_way = None
        self.tend()

    # --- the end -------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Begin nothing more."""
        self._is_stopped = True
        if self._tending:
            self._tending.cancel()

    async def finish(self) -> None:
        """Until the spare that is being made can be used."""
        if self.under_way is not None:
            await self.under_way

    async def close(self) -> None:
        await asyncio.to_thread(self._growing.shutdown)
