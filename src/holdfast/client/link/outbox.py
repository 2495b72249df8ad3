"""An outbox: what is to be sent, and what was sent and is not answered yet.

    waiting ─▶ in flight ─▶ answered
       ▲           │ the link is lost, and the next one begins
       └───────────┘ (`take_back`, `go_first`)

A window bounds what is in flight, by count and by bytes. The owner sends: it looks for room, says what is next, and notes it as
`sent` under the key that the answer will have.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Reversible
from typing import Generic, TypeVar

from holdfast.client.link.waiters import Waiters

Key = TypeVar("Key")
Item = TypeVar("Item")


class Outbox(Generic[Key, Item]):
    def __init__(self, window: int, bytes_max: int = sys.maxsize) -> None:
        self.window = window
        self.waiting: deque[Item] = deque()
        self.in_flight: dict[Key, Item] = {}  # in the order of sending
        self.changed = Waiters()  # woken when something is answered
        self._bytes_max = bytes_max
        self._sizes: dict[Key, int] = {}
        self._bytes = 0
        self._line: deque[object] = deque()

    def has_room(self, size: int = 0) -> bool:
        """Whether one more, of so many bytes, may be sent. One that is larger than the window goes alone."""
        count = len(self.in_flight)
        return not count or (count < self.window and self._bytes + size <= self._bytes_max)

    async def room(self, size: int = 0, deadline: float | None = None) -> None:
        """Wait, first come, first served, until one more may be sent. TimeoutError past the deadline."""
        if not self._line and self.has_room(size):
            return
        turn = object()
        self._line.append(turn)
        try:
            while self._line[0] is not turn or not self.has_room(size):
                await self.changed.wait(deadline)
        finally:
            self._line.remove(turn)
            self.changed.wake()  # it is the next one's turn

    def sent(self, key: Key, item: Item, size: int = 0) -> None:
        """It is in flight from now on."""
        self.in_flight[key] = item
        if size:
            self._sizes[key] = size
            self._bytes += size

    def answered(self, key: Key) -> Item | None:
        """It is in flight no more: the item, or None when it was not."""
        item = self.in_flight.pop(key, None)
        if self._sizes:
            self._bytes -= self._sizes.pop(key, 0)
        if self.changed:
            self.changed.wake()
        return item

    def take_back(self) -> list[Item]:
        """Nothing is in flight any more: what was, in the order of sending."""
        items = list(self.in_flight.values())
        self.in_flight.clear()
        self._sizes.clear()
        self._bytes = 0
        return items

    def go_first(self, items: Reversible[Item]) -> None:
        """These are sent, in this order, before all that waits."""
        self.waiting.extendleft(reversed(items))

    def clear(self) -> None:
        """Nothing is to be sent, and no answer counts any more."""
        self.waiting.clear()
        self.take_back()
        self.changed.wake()
