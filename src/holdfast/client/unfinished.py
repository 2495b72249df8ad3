"""What a producer has taken and not finished, by where it stands.

    open         more events may come; by whose they are: one for each destination's single sends, one for each pipeline
    waiting      closed, until the window has room; the first comes first
    held back    in `flow`, because its destination is full
    in flight    sent, by its number; sent again on a new link, until it is answered

What is receipted or refused is finished, and no longer here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Reversible

from holdfast.client.flow import Flow
from holdfast.client.gathering import Gathering
from holdfast.errors import HoldfastError, TimedOut


class Unfinished:
    def __init__(self) -> None:
        self.open: dict[object, Gathering] = {}
        self.waiting: deque[Gathering] = deque()
        self.flow = Flow()
        self.in_flight: dict[int, Gathering] = {}

    def __iter__(self) -> Iterator[Gathering]:
        yield from self.in_flight.values()
        yield from self.flow
        yield from self.waiting
        yield from self.open.values()

    @property
    def is_empty(self) -> bool:
        return not (self.in_flight or self.waiting or self.open) and self.flow.is_empty

    def close(self, gathering: Gathering) -> None:
        """No more events come: it waits."""
        del self.open[gathering.key]
        gathering.is_open = False
        self.waiting.append(gathering)

    def go_first(self, gatherings: Reversible[Gathering]) -> None:
        """These were held back, in this order, and may be sent before all that waits."""
        self.waiting.extendleft(reversed(gatherings))

    def accept_arrived(self, last_sequence: int, entries: Mapping[int, int]) -> list[int]:
        """The server has all up to this number, and these beyond it; the numbers of those whose receipts were lost."""
        arrived = [each for each in sorted(self.in_flight) if each <= last_sequence or each in entries]
        for sequence in arrived:
            # How many copies there are was in the receipt that was lost: one is certain.
            self.in_flight.pop(sequence).accept(entries.get(sequence, 0), 1, False)
        return arrived

    def drop(self, gathering: Gathering) -> None:
        """Nothing is left of it: while there is no link, such ones must not pile up."""
        if gathering.is_open:
            self.close(gathering)
        if not self.flow.drop(gathering):
            self.waiting.remove(gathering)
        gathering.refuse(nothing_left())

    def refuse_blocked(self, gatherings: Iterable[Gathering]) -> None:
        """What of these was not sent, because its destination is full."""
        for gathering in [each for each in gatherings if not each.was_sent and self.flow.is_blocked(each.destination)]:
            if self.open.get(gathering.key) is gathering:
                del self.open[gathering.key]
                gathering.is_open = False
            elif not self.flow.drop(gathering) and gathering in self.waiting:
                self.waiting.remove(gathering)
            gathering.refuse(self.flow.refusal(gathering.destination))

    def refuse_unsent(self, error: HoldfastError) -> None:
        refused = [*self.flow.give_up(), *self.waiting, *self.open.values()]
        self.waiting.clear()
        self.open.clear()
        for gathering in refused:
            gathering.is_open = False
            gathering.refuse(error)

    def refuse_in_flight(self, error: HoldfastError) -> None:
        in_flight, self.in_flight = self.in_flight, {}
        for gathering in in_flight.values():
            gathering.refuse(error)


def nothing_left() -> TimedOut:
    return TimedOut("nothing was left of this batch")
