"""Transfers: transactions move events from one place to others, and this says which promises about them were broken (B11).

    whole or not at all     an event in one of the targets is in all of them, and no longer in the source
    committed stays so      an event whose commit was answered is in the targets
    rolled back never was   an event that was rolled back is in none of them
    nothing lost or twice   every event that was there at the beginning is in the source or the targets, once

A commit that nobody answered may have happened or not; it must still be whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping


class Transfers:
    def __init__(self, source: str, *targets: str) -> None:
        self._source = source
        self._targets = targets
        self._there: set[Hashable] = set()
        self._unsure: set[Hashable] = set()
        self.committed: set[Hashable] = set()
        self._rolled_back: set[Hashable] = set()

    def sending(self, *events: Hashable) -> None:
        """Note events that are about to be put into the source."""
        self._unsure.update(events)

    def sent(self, *events: Hashable) -> None:
        """Note events that were accepted in the source."""
        self._unsure.difference_update(events)
        self._there.update(events)

    def commit(self, event: Hashable) -> None:
        """Note that a commit which moves this event was answered."""
        self.committed.add(event)

    def rolled_back(self, event: Hashable) -> None:
        """Note that only a transaction that was rolled back moved this event."""
        self._rolled_back.add(event)

    def broken(self, found: Mapping[str, Iterable[Hashable]]) -> list[str]:
        """Return the promises that do not hold for the events found in the source and in each target."""
        counts = {place: Counter(found[place]) for place in (self._source, *self._targets)}
        first = counts[self._targets[0]]
        problems = [f"in part: {target} and {self._targets[0]} differ" for target in self._targets[1:] if counts[target] != first]
        total = counts[self._source] + first
        certain = Counter(self._there)
        problems += _named("lost", certain - total)
        problems += _named("twice, or invented", total - certain - Counter(self._unsure))
        problems += _named("committed, and not there", Counter(self.committed) - first)
        problems += _named("rolled back, and there", first & Counter(self._rolled_back))
        return problems


def _named(what: str, found: Counter[Hashable]) -> list[str]:
    return [f"{what}: {found.total()}, such as {sorted(map(str, found))[:3]}"] if found else []
