"""A lane of a backlog as it is handed out: the batches of one priority, first placed first, returned events before fresh ones.

    placed      │ 1 │ 2 │ 3 │ 4 │ 5 │ 6 │ 7 │
                              ▲ cursor: everything before it was handed out, came back, or is not due

A lane knows places, not who holds which event: that is in the `delivery_state`. A queue of plain events has one lane.
"""

from __future__ import annotations

import heapq

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.batch_traits import priority_of
from holdfast.destination.delivery.credit import Receiver
from holdfast.destination.delivery.delay_index import DelayIndex
from holdfast.event.position import INDEX_BITS, INDEX_MASK

Hint = tuple[int, ...]  # place, first, last: these came back, if they have not gone out again since


class Lane:
    __slots__ = ("_backlog", "_bit", "_passed", "chain", "cursor", "delays", "is_at_end", "number", "priority", "returned")

    def __init__(self, number: int, backlog: Backlog) -> None:
        self.number = number
        self.priority = priority_of(number)
        self.cursor = (0, 0)  # slot and index of the first fresh place
        self.is_at_end = False
        self.chain: tuple[Receiver, int] | None = None  # who was handed what just before the cursor, nothing passed over since
        self.returned: list[Hint] = []  # a heap
        self.delays = DelayIndex()
        self._backlog = backlog
        self._bit = 1 << number
        self._passed = 0  # the last slot of this lane that the cursor has gone into

    @property
    def place(self) -> int:
        return self.cursor[0] << INDEX_BITS | self.cursor[1]

    def hint(self, first: int, last: int) -> None:
        heapq.heappush(self.returned, (self._backlog.place_of(first), first, last))

    def advance(self) -> tuple[int, int] | None:
        """The next waiting positions (first, last) of one batch, at the cursor, which is moved to them; None at the end."""
        if self.is_at_end:
            return None
        backlog = self._backlog
        is_alone = backlog.lanes == self._bit
        run = backlog.next_run(*self.cursor) if is_alone else backlog.next_run_of(self.number, *self.cursor)
        if run is None:
            self.cursor = (backlog.next_slot, 0)
            self.is_at_end = True
            return None
        slot, first, events = run
        if not is_alone and slot > self._passed + 1:
            self.chain = None  # batches of other lanes lie between
        self.cursor = (slot, first & INDEX_MASK)
        return first, first + events - 1

    def go_past(self, last: int) -> None:
        """The cursor goes past this position of the batch it stands at."""
        self._passed = self.cursor[0]
        self.cursor = (self._passed, (last & INDEX_MASK) + 1)

    def pass_over(self, last: int) -> None:
        """As `go_past`, without handing out what lies before."""
        self.go_past(last)
        self.chain = None
