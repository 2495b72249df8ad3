"""Marks: which upstream positions are in the local journal, until upstream needs to know no more.

    came ─▶ split: marked? ─── no ──▶ appended with a mark, in one local transaction
                      └─────── yes ─▶ not appended; upstream is told as the mode says
    upstream has applied the verdict, or says that the position is none of ours ─▶ the mark goes

A mark names the upstream subscription by its identity (`incarnation:entry`: the incarnation of the journal, and the entry that
made the subscription), and the positions. It is an event in a topic of the relay, read back at a start.

A mark of another identity of the same journal is of a subscription that is gone: nothing of it comes again, and the mark goes.
A mark of another incarnation of the journal is a reason to stop: upstream was restored, and its positions name other events.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import msgspec

from holdfast.event.incarnation import is_restored
from holdfast.relay.machines.position_set import PositionSet, Run


class Stretch(msgspec.Struct, frozen=True, array_like=True):
    """Upstream positions in a row, and where they are here: the first local one; 0 where the mode needs none."""

    first: int
    last: int
    local: int = 0
    target: str = ""  # the local destination, where `local` is said


class Mark(msgspec.Struct, frozen=True, array_like=True):
    number: int  # given by the relay, ascending
    identity: str
    stretches: tuple[Stretch, ...]


class Split(NamedTuple):
    """The parts of what came: `new` is to be appended, `marked` is here already."""

    new: list[Run]
    marked: list[Run]


class Marks:
    """The marks of one route."""

    def __init__(self) -> None:
        self._marks: dict[int, Mark] = {}
        self._open: dict[int, PositionSet] = {}  # by mark: positions that upstream has not settled
        self._marked = PositionSet()

    def __len__(self) -> int:
        return len(self._marks)

    def __iter__(self) -> Iterator[Mark]:
        return iter([self._marks[number] for number in sorted(self._marks)])

    def add(self, mark: Mark) -> None:
        """Add a mark that is durable. The same one again changes nothing."""
        if mark.number in self._marks:
            return
        self._marks[mark.number] = mark
        self._open[mark.number] = PositionSet((each.first, each.last) for each in mark.stretches)
        for each in mark.stretches:
            self._marked.add(each.first, each.last)

    def split(self, first: int, last: int) -> Split:
        return Split(self._marked.without(first, last), self._marked.within(first, last))

    @property
    def marked(self) -> PositionSet:
        """All positions that are here, and that upstream has not settled."""
        return self._marked

    def settled(self, first: int, last: int) -> list[int]:
        """Upstream has applied the verdict on these, or says that they are none of ours: the numbers of marks that go.

        A position is marked no more from here on: it does not come again.
        """
        gone = [number for number, left in self._open.items() if left.within(first, last)]
        for number in gone:
            self._open[number].remove(first, last)
        self._marked.remove(first, last)
        gone = [number for number in gone if not self._open[number]]
        for number in gone:
            del self._marks[number], self._open[number]
        return gone


class Found(NamedTuple):
    """Marks that were read back at a start, judged."""

    held: list[Mark]
    gone: list[Mark]
    restored_from: str = ""  # not "": upstream was restored; this is the incarnation that is known


def incarnation_of(identity: str) -> str:
    return identity.rpartition(":")[0]


def entry_of(identity: str) -> int:
    """The entry that made the subscription; 0 for a queue."""
    return int(identity.rpartition(":")[2] or 0)


def judged(known: str, marks: Iterable[Mark], identities: Collection[str]) -> Found:
    """Judge marks against the upstream that answered: these are the subscriptions of the route there, the newest first. `known`:
    the identity that was there before; "" where none is known."""
    found = incarnation_of(next(iter(identities), ""))
    held: list[Mark] = []
    gone: list[Mark] = []
    restored = ""
    for mark in marks:
        if is_restored(incarnation_of(mark.identity), found):
            restored = incarnation_of(mark.identity)
        (held if mark.identity in identities else gone).append(mark)
    if is_restored(incarnation_of(known), found):
        restored = incarnation_of(known)
    return Found(held, gone, restored)
