"""The batches of a producer that are not finished, by where they stand.

    open         more events may come; by whose they are: one for each destination's single sends, one for each pipeline
    waiting      closed, until the window has room; the first comes first
    held back    in `flow` (`blocked_destinations`), because its destination is full
    in flight    sent, by its number; sent again on a new link, until it is answered

A batch that is receipted or refused is finished, and no longer here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from holdfast.client.link.outbox import Outbox
from holdfast.client.receipt import EventIds, Receipts
from holdfast.client.sending.batch_builder import BatchBuilder
from holdfast.client.sending.blocked_destinations import BlockedDestinations
from holdfast.destination.state.deduplication import Repeated
from holdfast.errors import HoldfastError, TimedOut


class UnfinishedBatches:
    def __init__(self) -> None:
        self.open: dict[object, BatchBuilder] = {}
        self.flow = BlockedDestinations()
        self.outbox: Outbox[int, BatchBuilder] = Outbox(window=1)

    def __iter__(self) -> Iterator[BatchBuilder]:
        yield from self.outbox.in_flight.values()
        yield from self.flow
        yield from self.outbox.waiting
        yield from self.open.values()

    @property
    def is_empty(self) -> bool:
        return not (self.outbox.in_flight or self.outbox.waiting or self.open) and self.flow.is_empty

    def close(self, builder: BatchBuilder) -> None:
        """Let it wait: no more events come."""
        del self.open[builder.key]
        builder.is_open = False
        self.outbox.waiting.append(builder)

    def ids(self) -> EventIds:
        """Return the ids of all events that are in flight."""
        sent = Receipts()
        for builder in self.outbox.in_flight.values():
            sent.extend(builder, 0, builder.count)
        return EventIds(sent)

    def accept_arrived(
        self, last_sequence: int, entries: Mapping[int, int], repeated: Mapping[int, Repeated], channel: str = ""
    ) -> list[int]:  # fmt: skip
        """Accept batches whose receipts were lost; return their numbers. The server has all up to `last_sequence`, and those of
        `entries` beyond it. `repeated` are the repetitions in entries."""
        arrived = [each for each in sorted(self.outbox.in_flight) if each <= last_sequence or each in entries]
        for sequence in arrived:
            # How many copies there are was in the receipt that was lost: one is certain.
            entry = entries.get(sequence, 0)
            self.outbox.in_flight.pop(sequence).accept(entry, 1, False, repeated.get(entry, ()), channel)
        return arrived

    def drop(self, builder: BatchBuilder) -> None:
        """Take out a batch whose events were all withdrawn: without a link, such ones must not pile up."""
        if builder.is_open:
            self.close(builder)
        if not self.flow.drop(builder):
            self.outbox.waiting.remove(builder)
        builder.refuse(nothing_left())

    def refuse_blocked(self, builders: Iterable[BatchBuilder]) -> None:
        """Refuse those that were not sent because their destination is full."""
        for builder in [each for each in builders if not each.was_sent and self.flow.is_blocked(each.destination)]:
            if self.open.get(builder.key) is builder:
                del self.open[builder.key]
                builder.is_open = False
            elif not self.flow.drop(builder) and builder in self.outbox.waiting:
                self.outbox.waiting.remove(builder)
            builder.refuse(self.flow.refusal(builder.destination))

    def refuse_unsent(self, error: HoldfastError) -> None:
        refused = [*self.flow.give_up(), *self.outbox.waiting, *self.open.values()]
        self.outbox.waiting.clear()
        self.open.clear()
        for builder in refused:
            builder.is_open = False
            builder.refuse(error)

    def refuse_in_flight(self, error: HoldfastError) -> None:
        for builder in self.outbox.take_back():
            builder.refuse(error)


def nothing_left() -> TimedOut:
    return TimedOut("nothing was left of this batch")
