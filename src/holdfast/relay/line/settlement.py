"""The settlement with upstream: verdicts go out, and marks go when upstream has applied them.

    tell ─▶ noted, where upstream holds the position for us ─▶ applied ─▶ settled: the mark goes
             └ not held: it comes again, or upstream says that it is finished

A verdict that was refused, or whose answer was lost, is looked up: what upstream says is finished is settled, the rest stays due.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.event.position import Ranges
from holdfast.relay.line.figures import Figures
from holdfast.relay.machines.duties import Duties, Verdicts
from holdfast.relay.machines.marks import Marks
from holdfast.relay.machines.position_set import PositionSet, Run

if TYPE_CHECKING:
    from holdfast.client.receiving.incoming import Incoming

# Asks of upstream about positions that it does not hold for us are made this often, and name so many ranges.
LOOK_EVERY_S = 1.0
RANGES_AT_ONCE = 1_000

Look = Callable[[Ranges], Awaitable[Any]]  # what became of positions upstream


class Settlement:
    def __init__(
        self, incoming: Incoming, look: Look, marks: Marks, duties: Duties, drop: Callable[[list[int]], None], figures: Figures
    ) -> None:
        self._incoming = incoming
        self._look = look
        self._marks = marks
        self._duties = duties
        self._drop = drop
        self._figures = figures
        self._noted = PositionSet()  # told, and not known to be applied
        self._rejected = PositionSet()  # those of them that were rejected
        self._wanted = asyncio.Event()

    def tell(self, verdicts: Verdicts) -> None:
        """Give verdicts on what upstream holds for us."""
        if verdicts.confirm:
            self._note(self._incoming.confirm(Ranges.gather(verdicts.confirm)))
        for each in verdicts.reject:
            told = self._incoming.reject([(each.first, each.last)], each.reason, each.code)
            self._note(told)
            for first, last in told:
                self._rejected.add(first, last)

    def _note(self, told: Iterable[Run]) -> None:
        for first, last in told:
            self._noted.add(first, last)
        if self._noted:
            self._wanted.set()

    async def run(self) -> None:
        """Wait for verdicts to be applied, again and again."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            noted, self._noted = self._noted, PositionSet()
            try:
                await self._incoming.settled()
                self.settled(noted)
            except HoldfastError:
                for run in self._noted:  # the error may be about what was told since
                    noted.add(*run)
                self._noted = PositionSet()
                await self._look_up(noted)

    async def run_looks(self) -> None:
        """Ask for what is marked here and not held for us upstream: it is finished, or comes again."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            held = PositionSet(self._incoming.held)
            missing = [run for first, last in self._marks.marked for run in held.without(first, last)]
            missing = [run for first, last in missing for run in self._noted.without(first, last)]
            if missing:
                with contextlib.suppress(HoldfastError):  # no link for a while
                    await self._look_up(PositionSet(missing[:RANGES_AT_ONCE]))

    async def _look_up(self, positions: PositionSet) -> None:
        found = await self._look(positions.ranges())
        self.settled(found.finished)

    def settled(self, runs: Iterable[Run]) -> None:
        """Upstream has applied these, or says that they are finished."""
        for first, last in runs:
            rejected = sum(high - low + 1 for low, high in self._rejected.within(first, last))
            self._rejected.remove(first, last)
            self._figures.counts.rejected += rejected
            self._figures.counts.confirmed += last - first + 1 - rejected
            self._duties.settled(first, last)
            self._drop(self._marks.settled(first, last))
        self._figures.marks = len(self._marks)
