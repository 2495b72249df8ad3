"""The outcome watch: asks the local server what became of events that upstream waits for.

Several questions are under way, each about other positions: new events need not wait until a question about old ones is answered.
The local server answers when the first of them is finished. With more destinations than questions, those take turns: the server
waits the less, the more of them have not been asked yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.event.position import Ranges
from holdfast.relay.machines.duties import Duties, Verdicts
from holdfast.relay.machines.position_set import PositionSet, Run

if TYPE_CHECKING:
    from holdfast.client.client import Client

# Questions under way, ranges in each, and how long the server may wait for something to tell.
QUESTIONS_MAX = 8
RANGES_AT_ONCE = 1_000
WAIT_S = 10.0
# All destinations are asked within this time, as far as the least wait allows.
ROUND_S, WAIT_S_MIN = 1.0, 0.02


class OutcomeWatch:
    def __init__(self, local: Client, duties: Duties, tell: Callable[[Verdicts], None]) -> None:
        self._local = local
        self._duties = duties
        self._tell = tell
        self._unasked: dict[str, PositionSet] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()

    def add(self, target: str, first: int, last: int) -> None:
        """Watch these local positions."""
        self._unasked.setdefault(target, PositionSet()).add(first, last)
        self._changed.set()

    async def run(self) -> None:
        for target in self._duties.targets:
            for run in self._duties.waiting(target):
                self.add(target, *run)
        try:
            while True:
                self._changed.clear()
                self._ask()
                changed = asyncio.create_task(self._changed.wait())
                try:
                    done, _ = await asyncio.wait({changed, *self._asking}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
                for task in self._asking & done:
                    self._asking.discard(task)
                    task.result()
        finally:
            for task in self._asking:
                task.cancel()
            await asyncio.gather(*self._asking, return_exceptions=True)

    def _ask(self) -> None:
        for target in list(self._unasked):
            while target in self._unasked and len(self._asking) < QUESTIONS_MAX:
                self._asking.add(asyncio.create_task(self._question(target, self._take(target))))

    def _take(self, target: str) -> list[Run]:
        unasked = self._unasked[target]
        taken = [run for run, _ in zip(unasked, range(RANGES_AT_ONCE), strict=False)]
        for run in taken:
            unasked.remove(*run)
        if not unasked:
            del self._unasked[target]
        return taken

    async def _question(self, target: str, asked: list[Run]) -> None:
        found: Any = await self._local.outcomes(target, Ranges.gather(asked), wait=self._wait_s(), timeout=3 * WAIT_S)
        self._tell(self._duties.finished(target, (*found.confirmed, *found.nobody)))
        for dead in found.dead:
            self._tell(self._duties.died(target, dead.ranges, dead.code, dead.reason))
        for first, last in found.waiting:
            self.add(target, first, last)

    def _wait_s(self) -> float:
        """How long the server may wait: long if nobody else waits for his turn."""
        turns = len(self._unasked) / QUESTIONS_MAX
        return max(WAIT_S_MIN, ROUND_S / turns) if turns else WAIT_S
