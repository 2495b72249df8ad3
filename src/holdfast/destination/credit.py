"""Credit: what the holders of one backlog may still be given, and whose turn it is.

Holders with credit in events and in bytes stand in a line; whoever was served goes to its end. A holder without credit is not
in the line and costs nothing.
"""

from __future__ import annotations

from collections import deque

from holdfast.destination.receivers import Holder


class Receiver:
    """What a holder may be given, and in which entries it holds something."""

    def __init__(self, holder: Holder, selector: str = "") -> None:
        self.holder = holder
        self.selector = selector  # "" for all events
        self.events = 0
        self.bytes = 0
        self.entries: dict[int, None] = {}
        self.newest = 0  # the last position it was handed
        self.is_in_line = False
        self.is_passed_over = False  # it takes nothing for the moment, whatever its credit

    @property
    def has_credit(self) -> bool:
        return self.events > 0 and self.bytes > 0 and not self.is_passed_over


class Line:
    def __init__(self) -> None:
        self._waiting: deque[Receiver] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, receiver: Receiver) -> None:
        """Stand at the end, if there is credit and it does not stand in the line already."""
        if receiver.has_credit and not receiver.is_in_line:
            receiver.is_in_line = True
            self._waiting.append(receiver)

    def first(self) -> Receiver | None:
        """Whose turn it is; whoever has no credit any more leaves the line."""
        while self._waiting:
            if self._waiting[0].has_credit:
                return self._waiting[0]
            self._waiting.popleft().is_in_line = False
        return None

    def next(self) -> None:
        """The first was served."""
        self._waiting.rotate(-1)
