"""Receipts: the proof that events were accepted, as applications see it.

    Receipt    of one event
    Receipts   of many, in the order in which they were sent; a sequence that makes each Receipt when it is read

Events travel in batches, and so do their receipts: a `Receipts` of a million events holds a few thousand small objects.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Protocol, overload

import msgspec

from holdfast.errors import OutcomeUnknown
from holdfast.event import identifier


class Receipt(msgspec.Struct, frozen=True):
    """The event is durable. `copies` and `is_synced` are certain; it may be safer than they say.

    `position` names the event for ever, in its `channel`. It is 0 in a rare case: the link was lost, the event was accepted, and
    its position is not known any more.
    """

    position: int
    copies: int
    is_synced: bool
    identifier: int | str
    is_repeated: bool = False  # the same event was accepted before; the position is that of the first
    channel: str = ""  # of the position: that of one of several message managers; "" where there is one alone

    @property
    def id(self) -> str:
        """The id of the event: its own, or the one that the client gave it."""
        return self.identifier if isinstance(self.identifier, str) else identifier.to_text(self.identifier)

    def __repr__(self) -> str:
        where = f"{self.position}@{self.channel}" if self.channel else str(self.position)
        return f"Receipt(at {where}, id={self.id!r})"


class EventIds(Sequence[str]):
    """The ids of events, each made when it is read."""

    def __init__(self, events: Receipts) -> None:
        self._events = events

    def __len__(self) -> int:
        return len(self._events)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        found = self._events[place]
        return [each.id for each in found] if isinstance(found, list) else found.id

    def __repr__(self) -> str:
        return f"EventIds(of {len(self)} events)"


def naming(problem: OutcomeUnknown, ids: Sequence[str]) -> OutcomeUnknown:
    """The same error with the ids of the events it may have happened to."""
    if not ids or problem.ids:
        return problem
    others = f" and {len(ids) - 1:,} more, in error.ids" if len(ids) > 1 else ""
    what = "events" if len(ids) > 1 else "event"
    return type(problem)(f"{problem.sentence} ({what} {ids[0]}{others})", **{**problem.fields, "id": ids[0], "ids": ids})


class Receipted(Protocol):
    """A batch that has its receipt."""

    def receipt(self, index: int) -> Receipt: ...


class Receipts(Sequence[Receipt]):
    """Receipts of events in the order in which they were sent."""

    def __init__(self) -> None:
        self._runs: list[tuple[Receipted, int]] = []  # a batch, and the index in it at which a run of ours begins
        self._ends: list[int] = []

    def extend(self, batch: Receipted, first: int, count: int) -> None:
        """Add receipts of `count` events of a batch, from index `first` on."""
        self._runs.append((batch, first))
        self._ends.append(len(self) + count)

    def join(self, others: Receipts) -> None:
        """Add receipts that were gathered elsewhere."""
        begin = 0
        for (batch, first), end in zip(others._runs, others._ends, strict=True):
            self.extend(batch, first, end - begin)
            begin = end

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
