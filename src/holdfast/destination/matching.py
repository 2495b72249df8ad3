"""Which events of a batch each subscription takes (rule 12's patterns are decided before: here a batch is at hand).

    batch of 5        0 1 2 3 4
    "amount > 100"    x x . . x      bits 2 and 3 are placed as finished: they were never meant for this subscription
    no_local          . . . . .      its own client sent it: the batch is not placed there at all

Every selector is asked once a batch, however many subscriptions have it. Only heads are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.destination.effect import Placed
from holdfast.destination.page import bits
from holdfast.destination.producers import Batch
from holdfast.destination.subscription import Subscription
from holdfast.errors import BatchDamaged
from holdfast.event import batch as batches
from holdfast.event.selector import Selector


def place(batch: Batch, subscriptions: Iterable[Subscription]) -> list[Placed]:
    """Place a batch in those of these subscriptions that take something of it."""
    matching = Matching(batch)
    placed = []
    for subscription in subscriptions:
        unwanted = matching.unwanted(subscription)
        if unwanted != matching.everything:
            placed.append(subscription.place(batch, unwanted))
    return placed


class Matching:
    """What is known of one batch while it is placed."""

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
        if self._batch.unwanted is not None:
            return self._batch.unwanted[terms.selector]
        return self.unwanted_by(subscription.selector)

    def unwanted_by(self, selector: Selector) -> int:
        if selector not in self._unwanted:
            self._unwanted[selector] = self._ask(selector)
        return self._unwanted[selector]

    def _ask(self, selector: Selector) -> int:
        """Of a batch that cannot be read everything is taken: whoever delivers it finds that out, and gives it up with the
        reason."""
        try:
            self._read = self._read or batches.Batch(self._batch.heads)
        except BatchDamaged:
            return 0
        return self.everything & ~_bits_of(selector.select(self._read, range(self._batch.events)), self._batch.events)


def _bits_of(indexes: Iterable[int], count: int) -> int:
    made = bytearray(count + 7 >> 3)
    for index in indexes:
        made[index >> 3] |= 1 << (index & 7)
    return int.from_bytes(made, "little")
