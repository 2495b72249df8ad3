"""A gathering: events on their way to become a batch, then the batch, then what became of it.

    gathering   events of one destination, one priority, one delay; more may come, and one that waited too long may go
    sealed      encoded, with its ids and its sequence; from now on it is sent as it is, as often as need be
    finished    receipted or refused: everyone who waited knows, the bytes are let go, the receipts remain

An event that waits in a gathering was handed to nobody: when its caller's time is up it is withdrawn, and "nothing happened" is
true. Once sealed and sent it may have happened, whatever the caller is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

from holdfast.client.outgoing import Outgoing
from holdfast.client.receipt import Receipt
from holdfast.destination import command
from holdfast.errors import HoldfastError
from holdfast.event import batch, position
from holdfast.event.identifier import Counter

# A batch is closed at 64 KiB: past that, larger ones no longer make the disk or the wire faster.
BATCH_BYTES = 64 << 10
# What an event counts for beside its bytes, so that a batch of tiny events is closed at about six hundred of them.
EVENT_BYTES = 64

Kind = Literal["queue", "topic"]


class Waiter:
    """A caller that waits for the receipt of one event."""

    __slots__ = ("deadline", "future", "index")

    def __init__(self, index: int, future: asyncio.Future[Receipt], deadline: float) -> None:
        self.index = index
        self.future = future
        self.deadline = deadline


class Gathering:
    __slots__ = (
        "_entry", "_first_id", "_has_groups", "_ids", "_places", "_proof", "_withdrawn", "after", "bodies", "command",
        "count", "delay_ms", "destination", "earliest_expiry_ms", "error", "finished", "heads", "is_open", "is_trying", "key",
        "kind", "latest_expiry_ms", "priority", "sequence", "size", "waiters", "was_sent",
    )  # fmt: skip

    def __init__(self, key: object, destination: str, kind: Kind, priority: int, delay_ms: int, after: int) -> None:
        self.key = key  # whose events gather here
        self.destination = destination
        self.kind: Kind = kind
        self.priority = priority
        self.delay_ms = delay_ms
        self.after = after  # it goes when this sequence is receipted, full or not
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.size = 0
        self.count = 0
        self.earliest_expiry_ms = 0
        self.latest_expiry_ms = 0
        self.waiters: list[Waiter] = []
        self.finished: list[Callable[[Gathering], None]] = []
        self.command = b""
        self.sequence = 0
        self.was_sent = False
        self.is_open = True
        self.is_trying = False  # it is not held back for a destination that is full, but refused
        self.error: HoldfastError | None = None
        self._has_groups = False
        self._ids: dict[int, str] = {}
        self._withdrawn: set[int] = set()
        self._places: dict[int, int] | None = None  # where each event went, once some were withdrawn
        self._first_id = 0
        self._entry = 0
        self._proof = (0, False)

    def add(self, event: Outgoing) -> int:
        """Take an event; its index."""
        index = len(self.heads)
        self.heads.append(event.head)
        self.bodies.append(event.body)
        self.size += len(event.head) + len(event.body) + EVENT_BYTES
        if event.expires_at_ms:
            self.earliest_expiry_ms = min(self.earliest_expiry_ms or event.expires_at_ms, event.expires_at_ms)
            self.latest_expiry_ms = max(self.latest_expiry_ms, event.expires_at_ms)
        self._has_groups |= event.has_group
        if event.id is not None:
            self._ids[index] = event.id
        return index

    @property
    def is_full(self) -> bool:
        return self.size >= BATCH_BYTES

    @property
    def is_empty(self) -> bool:
        return len(self._withdrawn) == len(self.heads)

    def withdraw(self, index: int) -> None:
        """This event is not to be sent after all. Only before it is sealed."""
        assert not self.command
        self._withdrawn.add(index)
        self.heads[index] = self.bodies[index] = b""

    def expire(self, now: float) -> list[Waiter]:
        """Those whose time is over wait here no longer; what they sent is withdrawn, if it can be."""
        late = [waiter for waiter in self.waiters if waiter.deadline <= now]
        if late:
            self.waiters = [waiter for waiter in self.waiters if waiter.deadline > now]
        if not self.was_sent:
            for waiter in late:
                self.withdraw(waiter.index)
        return late

    def seal(self, producer: str, sequence: int, source: str, ids: Counter, now_ms: int) -> None:
        """Become the command that is sent, and sent again."""
        if self._withdrawn:
            self._leave_out_withdrawn()
        self.sequence = sequence
        encoded = self.to_batch(source, ids, now_ms)
        self.command = command.encode(command.BatchCommand(self.destination, producer, sequence), encoded)
        self.heads, self.bodies = [], []

    def to_batch(self, source: str, ids: Counter, now_ms: int) -> bytes:
        """The batch of what is gathered, with ids of its own."""
        self.count = len(self.heads)
        self._first_id = ids.take(self.count)
        return batch.encode(
            self.heads, self.bodies, source=source, first_id=self._first_id, priority=self.priority,
            not_before_ms=now_ms + self.delay_ms if self.delay_ms else 0, earliest_expiry_ms=self.earliest_expiry_ms,
            latest_expiry_ms=self.latest_expiry_ms, has_groups=self._has_groups,
        )  # fmt: skip

    def unseal(self) -> None:
        """It was refused as it is, and nothing of it was accepted: it waits again as it did before it was sealed."""
        _, payload = command.decode(self.command)
        sealed = batch.Batch(payload)
        places = range(self.count) if self._places is None else self._places
        self.heads = [b""] * (self.count + len(self._withdrawn))
        self.bodies = list(self.heads)
        for place, index in enumerate(places):
            self.heads[index], self.bodies[index] = bytes(sealed.head(place)), bytes(sealed.body(place))
        self._places = None
        self.command = b""
        self.was_sent = False

    def _leave_out_withdrawn(self) -> None:
        kept = [index for index in range(len(self.heads)) if index not in self._withdrawn]
        self._places = {index: place for place, index in enumerate(kept)}
        self.heads = [self.heads[index] for index in kept]
        self.bodies = [self.bodies[index] for index in kept]

    def accept(self, entry: int, copies: int, is_synced: bool) -> None:
        """It is durable: everyone who waits gets a receipt."""
        self._entry = entry
        self._proof = (copies, is_synced)
        self._finish()
        for waiter in self.waiters:
            if not waiter.future.done():
                waiter.future.set_result(self.receipt(waiter.index))
        self._let_go()

    def refuse(self, error: HoldfastError) -> None:
        """It was not accepted, or nobody knows: everyone who waits hears why."""
        self.error = error
        self.count = self.count or len(self.heads) - len(self._withdrawn)
        self._finish()
        for waiter in self.waiters:
            if not waiter.future.done():
                waiter.future.set_exception(type(error)(error.sentence, **error.fields))
        self._let_go()

    def _finish(self) -> None:
        self.command = b""
        self.heads, self.bodies = [], []

    def _let_go(self) -> None:
        self.waiters = []
        finished, self.finished = self.finished, []
        for told in finished:
            told(self)

    def receipt(self, index: int) -> Receipt:
        """The receipt of the event that `add` gave this index."""
        place = index if self._places is None else self._places[index]
        where = position.of(self._entry, place) if self._entry else 0
        return Receipt(where, *self._proof, self._ids.get(index) or self._first_id + place)
