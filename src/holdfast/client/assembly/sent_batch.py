"""A sent batch: which positions the events of a transaction were given, part by part.

A part that had to be sent again, because its link was lost, may lie in the channel twice. It counts once, and it is not known
here where: then its `first` is 0. What a destination that deduplicates left out is not at its position, either.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.client.receipt import Receipt
from holdfast.errors import BadSetting
from holdfast.event import batch, position

Bytes = bytes | memoryview


class SentBatch(NamedTuple):
    """Events that went to one destination together, from the position `first` on; 0 where that is not known."""

    destination: str
    first: int
    events: int
    channel: str = ""  # of the position: that of one of several message managers; "" where there is one alone

    @property
    def last(self) -> int:
        return self.first + self.events - 1 if self.first else 0


class PassedBatch:
    """A batch that is made already, and is sent as it is."""

    def __init__(self, data: Bytes) -> None:
        if len(data) < batch.FIXED_LENGTH or not batch.count_of(data):
            raise BadSetting(
                "this is not a batch; pass on what `incoming.encoded()` gives, or holdfast.event.batch", setting="batch"
            )
        self.data = data
        self.count = batch.count_of(data)
        self._first_id = int.from_bytes(data[40:56], "big")

    def receipt(self, index: int) -> Receipt:
        """For the id of an event: its position is told otherwise."""
        return Receipt(0, 1, False, self._first_id + index)

    def receipt_at(self, entry: int, proof: tuple[int, bool], channel: str = "") -> Receipt:
        """The receipt of its first event."""
        return Receipt(position.of(entry), *proof, self._first_id, False, channel)
