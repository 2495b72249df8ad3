"""A page: the batches in some thousand consecutive slots of a backlog, packed into three arrays.

    slot      first_slot + 0   + 1   + 2   …
    entry          17           17    20         64 bits: never falls (see `backlog` for slots that are displaced)
    events        100            3     1         16 bits: of the whole batch
    remaining      40            0     1         16 bits: not finished; 0: the batch is finished

Twelve bytes a batch and nothing the garbage collector has to look at, however many wait.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

# Large enough that pages are few (2,441 for ten million batches), small enough that a finished one comes free soon.
SLOTS_MAX = 4096


class Page:
    __slots__ = ("alive", "entries", "events", "first_slot", "remaining")

    def __init__(self, first_slot: int) -> None:
        self.first_slot = first_slot
        self.entries: array[int] = array("Q")
        self.events: array[int] = array("H")
        self.remaining: array[int] = array("H")
        self.alive = 0  # slots with something remaining

    @property
    def is_full(self) -> bool:
        return len(self.entries) == SLOTS_MAX

    def add(self, entry: int, events: int, remaining: int) -> None:
        self.entries.append(entry)
        self.events.append(events)
        self.remaining.append(remaining)
        self.alive += 1
        if len(self.entries) == SLOTS_MAX:
            self._trim()

    def _trim(self) -> None:
        """Give back what the arrays hold for growing: a full page grows no more."""
        self.entries = array("Q", self.entries)
        self.events = array("H", self.events)
        self.remaining = array("H", self.remaining)


def bits(first: int, last: int) -> int:
    """A number whose bits first .. last are set."""
    return (1 << last + 1) - (1 << first)


def runs_of(number: int) -> Iterator[tuple[int, int]]:
    """The runs of set bits, lowest first, as (first, last)."""
    base = 0
    while number:
        zeros = (number & -number).bit_length() - 1
        number >>= zeros
        base += zeros
        ones = (~number & number + 1).bit_length() - 1
        yield base, base + ones - 1
        number >>= ones
        base += ones
