"""A batch builder takes events, becomes a batch, and tells its waiters what became of it.

    open        events of one destination, one priority, one delay; more may come, and one that waited too long may go
    sealed      encoded, with its ids and its sequence; from now on it is sent as it is, as often as need be
    finished    receipted or refused: all waiters know, the bytes are let go, the receipts remain

An event of an open builder was not sent: when its caller's time is up it is withdrawn, and "nothing happened" is true. Once
sealed and sent it may have happened, whatever the caller is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

from holdfast.client.receipt import Receipt, naming
from holdfast.client.sending.encoded_run import EncodedRun
from holdfast.client.sending.outgoing import EVENT_BYTES_MAX, Outgoing
from holdfast.destination import command
from holdfast.destination.state.deduplication import Repeated
from holdfast.errors import HoldfastError, OutcomeUnknown
from holdfast.event import batch, position
from holdfast.event.identifier import Counter

# A batch is closed at 64 KiB: past that, larger ones no longer make the disk or the wire faster.
BATCH_BYTES = 64 << 10
# Added to the bytes of each event, so that a batch of tiny events is closed at about six hundred of them.
EVENT_BYTES = 64

# A batch has one delay: events that are sent within this time of each other wait for the last of them.
DUE_SPREAD_MS = 50

Kind = Literal["queue", "topic"]


class Waiter:
    """A caller that waits for the receipt of one event."""

    __slots__ = ("deadline", "future", "index")

    def __init__(self, index: int, future: asyncio.Future[Receipt], deadline: float) -> None:
        self.index = index
        self.future = future
        self.deadline = deadline


class BatchBuilder:
    __slots__ = (
        "_channel", "_entry", "_first_id", "_has_groups", "_ids", "_places", "_proof", "_repeated", "_withdrawn", "after",
        "bodies", "command", "count", "delay_ms", "destination", "earliest_expiry_ms", "error", "finished", "first_due_ms",
        "heads", "is_open", "is_patient", "is_trying", "key", "kind", "latest_expiry_ms", "not_before_ms", "priority", "sequence",
        "size", "waiters", "was_sent",
    )  # fmt: skip

    def __init__(self, key: object, destination: str, kind: Kind, priority: int, delay_ms: int, after: int) -> None:
        self.key = key  # who adds events here: a destination's single sends, or a pipeline
        self.destination = destination
        self.kind: Kind = kind
        self.priority = priority
        self.delay_ms = delay_ms
        self.first_due_ms = 0  # when the first of them is due, by the server's clock
        self.not_before_ms = 0  # when the last of them is
        self.after = after  # send it, full or not, when this sequence is receipted
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.size = 0
        self.count = 0
        self.earliest_expiry_ms = 0
        self.latest_expiry_ms = 0
        self.waiters: list[Waiter] = []
        self.finished: list[Callable[[BatchBuilder], None]] = []
        self.command = b""
        self.sequence = 0
        self.was_sent = False
        self.is_open = True
        self.is_trying = False  # refuse it, do not hold it back, while its destination is full
        self.is_patient = False  # its receipt may come after its delivery
        self.error: HoldfastError | None = None
        self._has_groups = False
        self._ids: dict[int, str] = {}
        self._withdrawn: set[int] = set()
        self._places: dict[int, int] | None = None  # where each event went, once some were withdrawn
        self._first_id = 0
        self._entry = 0
        self._channel = ""
        self._proof = (0, False)
        self._repeated: Repeated = ()

    def takes(self, kind: Kind, event: Outgoing | EncodedRun) -> bool:
        """Whether events fit this batch, which has one kind, one priority, one delay from about the same time on, and a limit."""
        if self.priority != event.priority or self.delay_ms != event.delay_ms or self.kind != kind:
            return False
        if self.size + event.size > EVENT_BYTES_MAX:
            return False
        return not event.delay_ms or event.not_before_ms - self.first_due_ms <= DUE_SPREAD_MS

    def add(self, event: Outgoing) -> int:
        """Add an event; return its index."""
        index = len(self.heads)
        self.heads.append(event.head)
        self.bodies.append(event.body)
        self.size += len(event.head) + len(event.body) + EVENT_BYTES
        if event.expires_at_ms:
            self.earliest_expiry_ms = min(self.earliest_expiry_ms or event.expires_at_ms, event.expires_at_ms)
            self.latest_expiry_ms = max(self.latest_expiry_ms, event.expires_at_ms)
        if event.not_before_ms:
            self.first_due_ms = self.first_due_ms or event.not_before_ms
            self.not_before_ms = max(self.not_before_ms, event.not_before_ms)
        self._has_groups |= event.has_group
        if event.id is not None:
            self._ids[index] = event.id
        return index

    def add_run(self, run: EncodedRun) -> None:
        """Add the events of a run, in order."""
        first = len(self.heads)
        self.heads += run.heads
        self.bodies += run.bodies
        self.size += run.size
        if run.latest_expiry_ms:
            self.earliest_expiry_ms = min(self.earliest_expiry_ms or run.earliest_expiry_ms, run.earliest_expiry_ms)
            self.latest_expiry_ms = max(self.latest_expiry_ms, run.latest_expiry_ms)
        self._has_groups |= run.has_groups
        for index, id in run.ids.items():
            self._ids[first + index] = id

    @property
    def is_full(self) -> bool:
        return self.size >= BATCH_BYTES

    @property
    def is_under_way(self) -> bool:
        """It was sent and is not answered."""
        return self.was_sent and bool(self.command)

    @property
    def is_empty(self) -> bool:
        return len(self._withdrawn) == len(self.heads)

    def withdraw(self, index: int) -> None:
        """Leave this event out. Only before it is sealed."""
        assert not self.command
        self._withdrawn.add(index)
        self.heads[index] = self.bodies[index] = b""

    def expire(self, now: float) -> list[Waiter]:
        """Take out the waiters whose time is over. Their events are withdrawn if nothing was sent yet."""
        late = [waiter for waiter in self.waiters if waiter.deadline <= now]
        if late:
            self.waiters = [waiter for waiter in self.waiters if waiter.deadline > now]
        if not self.was_sent:
            for waiter in late:
                self.withdraw(waiter.index)
        return late

    def seal(self, producer: str, sequence: int, source: str, ids: Counter) -> None:
        """Encode the command that is sent, and sent again."""
        if self._withdrawn:
            self._leave_out_withdrawn()
        self.sequence = sequence
        encoded = self.to_batch(source, ids)
        self.command = command.encode(command.BatchCommand(self.destination, producer, sequence), encoded)
        self.heads, self.bodies = [], []

    def to_batch(self, source: str, ids: Counter) -> bytes:
        """Encode the events as a batch, with ids of its own."""
        self.count = len(self.heads)
        self._first_id = ids.take(self.count)
        return batch.encode(
            self.heads, self.bodies, source=source, first_id=self._first_id, priority=self.priority,
            not_before_ms=self.not_before_ms, earliest_expiry_ms=self.earliest_expiry_ms,
            latest_expiry_ms=self.latest_expiry_ms, has_groups=self._has_groups,
        )  # fmt: skip

    def unseal(self) -> None:
        """Go back to before `seal`: the batch was refused, and nothing of it was accepted."""
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

    def accept(self, entry: int, copies: int, is_synced: bool, repeated: Repeated = (), channel: str = "") -> None:
        """Give all waiters their receipts: it is durable. `repeated` and `channel` are as in a Receipted frame."""
        self._channel = channel
        self._entry = entry
        self._repeated = repeated
        self._proof = (copies, is_synced)
        for waiter in self.waiters:
            if not waiter.future.done():
                waiter.future.set_result(self.receipt(waiter.index))
        self._let_go()

    def refuse(self, error: HoldfastError) -> None:
        """Tell all waiters why it was not accepted, or that nobody knows."""
        self.error = error
        self.count = self.count or len(self.heads) - len(self._withdrawn)
        for waiter in self.waiters:
            if not waiter.future.done():
                waiter.future.set_exception(self._told(error, waiter.index))
        self._let_go()

    def _told(self, error: HoldfastError, index: int) -> HoldfastError:
        """Make an error for one waiter, with the id of its event where nobody knows what became of it."""
        if isinstance(error, OutcomeUnknown) and self._first_id:
            return naming(type(error)(error.sentence, **error.fields), (self.receipt(index).id,))
        return type(error)(error.sentence, **error.fields)

    def let_bodies_go(self) -> None:
        """Forget the bytes: the batch is kept elsewhere. The ids of its events remain."""
        self.heads, self.bodies = [], []

    def _let_go(self) -> None:
        """Forget the bytes and the waiters, and call those who want to know that it is finished."""
        self.command = b""
        self.heads, self.bodies, self.waiters = [], [], []
        finished, self.finished = self.finished, []
        for told in finished:
            told(self)

    def receipt(self, index: int) -> Receipt:
        """Make the receipt of the event that `add` gave this index."""
        place = index if self._places is None else self._places[index]
        for first, count, repeated in self._repeated:
            if first <= place < first + count:
                known = self._ids.get(index) or self._first_id + place
                return Receipt(repeated + place - first, *self._proof, known, True, self._channel)
        where = position.of(self._entry, place) if self._entry else 0
        return Receipt(where, *self._proof, self._ids.get(index) or self._first_id + place, False, self._channel)
