"""Subscription matching: which events of a batch each subscription takes. (Patterns, rule 12, were matched before.)

    batch of 5        0 1 2 3 4
    "amount > 100"    x x . . x      bits 2 and 3 are placed as finished: they are not meant for this subscription
    no_local          . . . . .      its own client sent it: the batch is not placed there at all

Each selector is asked once for a batch, however many subscriptions have it. Only heads are read.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from holdfast.destination.backlog.runs import bits
from holdfast.destination.effect import Placed
from holdfast.destination.state.producers import Batch
from holdfast.destination.state.subscription import Subscription
from holdfast.errors import BatchDamaged
from holdfast.event import batch as batches
from holdfast.event.selector.selector import Selector

# The answers of selectors before a batch is placed: the bits of the events that the selector does not take, by the entry of the
# batch and the text of the selector.
Answers = dict[int, dict[str, int]]


def place(batch: Batch, subscriptions: Iterable[Subscription], by_none: int = 0) -> list[Placed]:
    """Place a batch in the subscriptions that take an event of it; `by_none` are the bits of events that none takes."""
    matching = SubscriptionMatching(batch)
    placed = []
    for subscription in subscriptions:
        unwanted = matching.unwanted(subscription) | by_none
        if unwanted != matching.everything:
            placed.append(subscription.place(batch, unwanted))
    return placed


class SubscriptionMatching:
    """The answers about one batch while it is placed."""

    def __init__(self, batch: Batch) -> None:
        self.everything = bits(0, batch.events - 1)
        self._batch = batch
        self._read: batches.Batch | None = None
        self._unwanted: dict[Selector, int] = {}

    def unwanted(self, subscription: Subscription) -> int:
        """The bits of the events that a subscription does not take."""
        terms = subscription.terms
        if terms.no_local and terms.client and terms.client == self._batch.client:
            return self.everything
        if subscription.selector is None:
            return 0
        return self.unwanted_by(subscription.selector)

    def unwanted_by(self, selector: Selector) -> int:
        if self._batch.unwanted is not None and selector.text in self._batch.unwanted:
            return self._batch.unwanted[selector.text]
        if selector not in self._unwanted:
            read = self._heads()
            self._unwanted[selector] = 0 if read is None else self._but(selector.select(read, range(self._batch.events)))
        return self._unwanted[selector]

    def unwanted_in_steps(self, selector: Selector) -> Generator[int, None, int]:
        """As `unwanted_by`, a generator that yields the cost of each step."""
        read = self._heads()
        return 0 if read is None else self._but((yield from selector.select_in_steps(read, range(self._batch.events))))

    def _heads(self) -> batches.Batch | None:
        """The batch; None if it cannot be read: then everything is taken, and delivery finds the damage and gives it up with the
        reason."""
        try:
            self._read = self._read or batches.Batch(self._batch.heads)
        except BatchDamaged:
            return None
        return self._read

    def _but(self, wanted: Iterable[int]) -> int:
        return self.everything & ~_bits_of(wanted, self._batch.events)


def _bits_of(indexes: Iterable[int], count: int) -> int:
    made = bytearray(count + 7 >> 3)
    for index in indexes:
        made[index >> 3] |= 1 << (index & 7)
    return int.from_bytes(made, "little")
