"""Receipts: the proof that events were accepted, as applications see it.

    Receipt    of one event
    Receipts   of many, in the order in which they were sent; a sequence that makes each Receipt when it is looked at

Events travel in batches and so do their proofs: a `Receipts` of a million events holds a few thousand small objects.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Protocol, overload

import msgspec

from holdfast.event import identifier


class Receipt(msgspec.Struct, frozen=True):
    """The event is durable. `copies` and `is_synced` are what is known for certain: it may be safer than they say.

    `position` names the event for ever; 0 in the rare case that the link was lost, the event is known to be accepted, and
    nobody remembers where.
    """

    position: int
    copies: int
    is_synced: bool
    identifier: int | str

    @property
    def id(self) -> str:
        """The id of the event: the one it was sent with, or the one that was given to it."""
        return self.identifier if isinstance(self.identifier, str) else identifier.to_text(self.identifier)


class Receipted(Protocol):
    """A batch that has its receipt."""

    def receipt(self, index: int) -> Receipt: ...


class Receipts(Sequence[Receipt]):
    """Receipts of events in the order in which they were sent."""

    def __init__(self) -> None:
        self._runs: list[tuple[Receipted, int]] = []  # a batch, and the index in it at which a run of ours begins
        self._ends: list[int] = []

    def extend(self, batch: Receipted, first: int, count: int) -> None:
        """The next `count` events are those of the batch from index `first` on."""
        self._runs.append((batch, first))
        self._ends.append(len(self) + count)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, place: int) -> Receipt: ...
    @overload
    def __getitem__(self, place: slice) -> list[Receipt]: ...
    def __getitem__(self, place: int | slice) -> Receipt | list[Receipt]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        at = place + len(self) if place < 0 else place
        if not 0 <= at < len(self):
            raise IndexError(f"receipt {place} of {len(self)}")
        run = bisect_right(self._ends, at)
        batch, first = self._runs[run]
        return batch.receipt(first + at - (self._ends[run - 1] if run else 0))

    def __iter__(self) -> Iterator[Receipt]:
        begin = 0
        for (batch, first), end in zip(self._runs, self._ends, strict=True):
            for index in range(first, first + end - begin):
                yield batch.receipt(index)
            begin = end

    def __repr__(self) -> str:
        return f"Receipts(of {len(self)} events)"
