"""A received batch: events of one slice, as they came, taken and confirmed together.

for event in batch     each event, with its own verdicts
batch.data             the data of all of them
batch.confirm()        confirm those on which the program has not decided one by one

An encoded batch is not even opened: its bytes are passed on as they are (`incoming.encoded()`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from datetime import datetime
from itertools import repeat
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.client.receiving.received_event import Received, ReceivedEvent, ReceivedSlice
from holdfast.event.event import from_microseconds
from holdfast.event.hops import passed_on

if TYPE_CHECKING:
    from holdfast.client.receiving.verdict_buffer import VerdictBuffer

Each = TypeVar("Each", bound=Received)


class Batch(Generic[Each]):
    __slots__ = ("_events", "_is_confirmed", "slice", "taken")

    def __init__(self, received: ReceivedSlice, taken: range) -> None:
        self.slice = received  # that it came with
        self.taken = taken  # the indices of its events in the slice
        self._events: list[Each] | None = None  # made when the program looks at them
        self._is_confirmed = False

    def __len__(self) -> int:
        return len(self.taken)

    def __iter__(self) -> Iterator[Each]:
        return iter(self._each())

    def __getitem__(self, index: int) -> Each:
        return self._each()[index]

    def _each(self) -> list[Each]:
        if self._events is None:
            self._events = self._make()
            if self._is_confirmed:
                for event in self._events:
                    event._verdict = "confirmed"
        return self._events

    def _make(self) -> list[Each]:
        raise NotImplementedError

    @property
    def first(self) -> int:
        """The position of its first event."""
        return self.slice.first + self.taken[0]

    @property
    def last(self) -> int:
        """The position of its last event."""
        return self.slice.first + self.taken[-1]

    @property
    def data(self) -> list[Any]:
        """The data of its events: bytes, text, or values from JSON. TooLarge if one is a large event."""
        together = self.slice.read_together() if self.slice.together is None else self.slice.together
        if together:
            return list(together[self.taken.start : self.taken.stop])
        return [event.data for event in self._each()]

    @property
    def is_decided(self) -> bool:
        """A verdict was given on each of its events."""
        return self._is_confirmed or (self._events is not None and all(event.is_decided for event in self._events))

    def _undecided(self) -> Sequence[Each] | None:
        """Begin to confirm: the events without a verdict. None if that is all of them: then they are confirmed together."""
        self._is_confirmed = True
        events = self._events or []
        for index, event in enumerate(events):
            if event._verdict:
                for marked in events[:index]:
                    marked._verdict = ""
                return [each for each in events if not each._verdict]
            event._verdict = "confirmed"
        return None

    def __repr__(self) -> str:
        where = self.slice.destination or self.slice.origin.destination
        return f"{type(self).__name__}({len(self)} events of {where!r} from {self.first})"


class ReceivedBatch(Batch[ReceivedEvent]):
    """Events as `async for batch in incoming.batches()` hands them out."""

    __slots__ = ()

    def _make(self) -> list[ReceivedEvent]:
        return list(map(ReceivedEvent, repeat(self.slice), self.taken))

    def confirm(self) -> Awaitable[None]:
        """Say that the program has finished with all of it. Events on which it has decided already keep their verdicts."""
        verdicts: VerdictBuffer = self.slice.origin.verdicts
        if self._is_confirmed:
            return verdicts.confirm_again(self.slice.generation)
        undecided = self._undecided()
        if undecided is None:
            return verdicts.confirm_run(self.first, self.last, self.slice.generation)
        for event in undecided:
            event.confirm()
        return verdicts.noted

    def release(self, delay: float = 0.0) -> Awaitable[None]:
        """Give back the events on which the program has not decided, to be delivered again in `delay` seconds at the earliest."""
        for event in self:
            if not event.is_decided:
                event.release(delay)
        verdicts: VerdictBuffer = self.slice.origin.verdicts
        return verdicts.noted


class EncodedBatch:
    """A batch as `async for batch in incoming.encoded()` hands it out: bytes, of which only the fixed head was read.

    Ids, times, properties, priority, expiry and delay of its events are in the bytes, and travel with them: `send_batch` of a
    destination, or of one in a transaction, takes them as they are.
    """

    __slots__ = ("data", "slice")

    def __init__(self, received: ReceivedSlice, taken: range) -> None:
        is_whole = len(taken) == received.events
        self.slice = received if is_whole else received.part(taken.start, taken.stop)
        self.data: memoryview | bytes = self.slice.batch.data

    def __len__(self) -> int:
        return self.slice.events

    @property
    def count(self) -> int:
        """How many events it has."""
        return self.slice.events

    @property
    def first(self) -> int:
        """The position of its first event."""
        return self.slice.first

    @property
    def last(self) -> int:
        """The position of its last event."""
        return self.slice.last

    @property
    def destination(self) -> str:
        """Where it was sent; of a pattern, the topic."""
        return self.slice.destination or str(self.slice.origin.destination)

    @property
    def accepted_at(self) -> datetime | None:
        """When the server accepted it; None if an older release did not write that down."""
        return from_microseconds(self.slice.accepted_us) if self.slice.accepted_us else None

    @property
    def deliveries(self) -> int:
        """How often it was delivered before, as far as that counts."""
        return self.slice.deliveries

    @property
    def redelivered(self) -> bool:
        """It came back before."""
        return self.slice.deliveries > 0 or self.slice.is_returned

    @property
    def hops(self) -> int:
        """How often it was passed on; 0: its producer sent it here."""
        return int(self.slice.batch.hops)

    @property
    def origin(self) -> int:
        """The tag of the place from which it was passed on first (`holdfast.event.hops`); 0: of none."""
        return int(self.slice.batch.origin)

    @property
    def is_large(self) -> bool:
        """It is one large event, whose data is read and sent in pieces: `batch.events[0].open_stream()`, and `send_stream`."""
        batch = self.slice.batch
        return batch.count == 1 and not len(batch.bodies) and self.slice.head(0).large is not None

    @property
    def events(self) -> ReceivedBatch:
        """Open it."""
        return ReceivedBatch(self.slice, range(self.slice.events))

    def passed_on(self, origin: int = 0) -> bytes:
        """Its bytes with one hop more; and with this origin, if it has none yet."""
        return passed_on(self.data, origin)

    def confirm(self) -> Awaitable[None]:
        """Say that the program has finished with all of it."""
        verdicts: VerdictBuffer = self.slice.origin.verdicts
        return verdicts.confirm_run(self.first, self.last, self.slice.generation)

    def __repr__(self) -> str:
        return f"EncodedBatch({self.count} events of {self.destination!r} from {self.first})"
