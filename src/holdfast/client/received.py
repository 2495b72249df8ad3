"""A received event: read where it lies in its batch, decoded when it is looked at.

    confirm    finished with it
    release    give it back, to be delivered again, to anyone, after a delay if one is given
    reject     refuse it for good: it goes to the dead events with the reason

A verdict is noted here and now, and travels together with others; awaiting it costs next to nothing and says nothing about
whether it was applied: `await incoming.settled()`, or leaving the receiver, waits for that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from holdfast.client.death import Death, checked_reason, deaths_of
from holdfast.client.large import EventStream
from holdfast.client.outgoing import EventFields
from holdfast.errors import BadSetting, Refused, TooLarge
from holdfast.event import identifier
from holdfast.event.batch import Batch
from holdfast.event.event import Head, PropertyValue, data_decoder, decode_head, decode_heads, from_microseconds, is_json
from holdfast.wire.message import Death as TravellingDeath

if TYPE_CHECKING:
    from holdfast.client.receipt import Receipt
    from holdfast.client.recipient import Incoming

DELAY_SECONDS_MAX = 10 * 365 * 86_400
# Events of a batch from which on it pays to make the data of all at once.
TOGETHER_MIN = 4
# How large they may be on average: large ones are not made faster together, and would be kept together.
TOGETHER_BYTES_MAX = 2 << 10


class Handed(msgspec.Struct, eq=False):
    """A slice of a batch as a receiver was handed it."""

    incoming: Any
    batch: Batch
    first: int
    events: int
    deliveries: int
    size: int
    generation: int
    destination: str = ""  # where it was sent, when that is not where the receiver is attached
    deaths: Sequence[TravellingDeath] = ()  # of the dead queue: why all of these are there
    accepted_us: int = 0  # 0: not known
    # The data of all events of the batch where that is all bytes, or all text; None: not looked yet, empty: each for itself.
    together: Sequence[bytes | str] | None = None
    _heads: Sequence[Head] | None = None

    def head(self, index: int) -> Head:
        """Who looks at one event will look at its neighbours: all of them are decoded the first time, which is twice as fast."""
        heads = self._heads or self._read_heads()
        return heads[index] if heads else decode_head(self.batch.head(index))

    def _read_heads(self) -> Sequence[Head]:
        """None of them when one cannot be read, which must not hide the others."""
        if self._heads is None:
            try:
                self._heads = decode_heads(self.batch.heads, self.batch.count)
            except (msgspec.DecodeError, UnicodeDecodeError):
                self._heads = ()
        return self._heads

    def read_together(self) -> Sequence[bytes | str]:
        """Whoever looks at one event's data will look at its neighbours': what nobody can change is made of all bodies at once,
        in half the time while they are small. JSON is not: whoever changes what it was given must not change what the next one
        gets."""
        self.together = ()
        count = self.batch.count
        if count < TOGETHER_MIN or len(self.batch.data) > count * TOGETHER_BYTES_MAX:
            return ()
        types = {head.datacontenttype for head in self._read_heads()}
        if len(types) == 1 and not is_json(*types):
            self.together = self.batch.bodies_as(data_decoder(*types))
        return self.together


class Received(msgspec.Struct, eq=False, gc=False):
    """One event of a queue or subscription. Its attributes are those of CloudEvents, and those of its delivery."""

    _handed: Handed
    _index: int
    _verdict: str = ""

    def _decide(self, verdict: str) -> bool:
        """Whether this is news. An event has one verdict; the same one again is passed over, another is refused."""
        if self._verdict and self._verdict != verdict:
            raise Refused(
                f"the event at {self.position} was {self._verdict} already and cannot be {verdict}", position=self.position
            )
        is_new = not self._verdict
        self._verdict = verdict
        return is_new

    @property
    def is_decided(self) -> bool:
        """A verdict was given on it, by itself."""
        return bool(self._verdict)

    def _look(self) -> Head:
        return self._handed.head(self._index)

    # --- what was sent -----------------------------------------------------------------------------------------------

    @property
    def data(self) -> Any:
        """What was sent: bytes, text, or what JSON holds. TooLarge for a large event: see `open_stream`."""
        handed, index = self._handed, self._index
        together = handed.read_together() if handed.together is None else handed.together
        if together:
            return together[index]
        head, body = handed.head(index), handed.batch.body(index)
        return data_decoder(head.datacontenttype)(body if len(body) else self.body)

    @property
    def body(self) -> memoryview:
        """The data as it travelled, not decoded and not copied. TooLarge for a large event."""
        found = self._handed.batch.body(self._index)
        if not len(found) and self.is_large:
            raise TooLarge(
                f"the event at {self.position} has {self.size} bytes and is not in memory; "
                "read it with `async with event.open_stream() as stream`",
                position=self.position,
                size=self.size,
            )
        return found

    @property
    def is_large(self) -> bool:
        """It was sent with `send_stream` and is read with `open_stream`."""
        return self._look().large is not None

    @property
    def size(self) -> int:
        """How many bytes its data has."""
        large = self._look().large
        return len(self._handed.batch.body(self._index)) if large is None else large.size

    @property
    def handed(self) -> Handed:
        """The slice it came with."""
        return self._handed

    def decide_in_transaction(self) -> bool:
        """A transaction decides on it from now on; whether this is news."""
        return self._decide("confirmed in a transaction")

    def _stream(self) -> EventStream:
        incoming: Incoming = self._handed.incoming
        large = self._look().large
        body = b"" if large is not None else self.body
        return EventStream(incoming.session, incoming.receiver, self.position, large, body)

    @property
    def id(self) -> str:
        return self._look().id or identifier.to_text(self._handed.batch.first_id + self._index)

    @property
    def source(self) -> str:
        return self._look().source or self._handed.batch.source

    @property
    def type(self) -> str:
        return self._look().type

    @property
    def time(self) -> datetime:
        return from_microseconds(self._look().time_us)

    @property
    def subject(self) -> str | None:
        return self._look().subject

    @property
    def datacontenttype(self) -> str:
        return self._look().datacontenttype

    @property
    def dataschema(self) -> str | None:
        return self._look().dataschema

    @property
    def properties(self) -> Mapping[str, PropertyValue]:
        return self._look().properties or {}

    @property
    def group(self) -> str | None:
        return self._look().group

    @property
    def correlation_id(self) -> str | None:
        return self._look().correlation_id

    @property
    def reply_to(self) -> str | None:
        return self._look().reply_to

    @property
    def priority(self) -> int:
        return int(self._handed.batch.priority)

    @property
    def expires_at_ms(self) -> int:
        """When it expires, in ms since 1970; 0 for never."""
        return self._look().expires_at_ms

    @property
    def head(self) -> Head:
        """All that was sent of it beside its data, as it travelled."""
        return self._look()

    # --- its delivery ------------------------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        return self._handed.first + self._index

    @property
    def deliveries(self) -> int:
        """How often it had been delivered before this time."""
        return self._handed.deliveries

    @property
    def accepted_at(self) -> datetime | None:
        """When the server accepted it, by the server's clock; None where an older one did not write it down."""
        accepted_us = self._handed.accepted_us
        return from_microseconds(accepted_us) if accepted_us else None

    @property
    def redelivered(self) -> bool:
        return self._handed.deliveries > 0

    @property
    def destination(self) -> str:
        """Where it was sent: for a receiver of a pattern, the topic; for one of the dead events, where it was sent once."""
        destination: str = self._handed.destination or self._handed.incoming.destination
        return destination

    @property
    def dead(self) -> tuple[Death, ...]:
        """Of an event of the dead queue `_DMQ`: why it is there, oldest first; one for each subscription that gave it up.
        Empty for any other event."""
        return deaths_of(self._handed.deaths)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.destination!r} at {self.position}, id={self.id!r}, type={self.type!r})"


class ReceivedEvent(Received, eq=False, gc=False):
    """An event as `async for event in incoming` hands it out."""

    def open_stream(self) -> EventStream:
        """Read its data piece by piece: `async with event.open_stream() as stream: async for chunk in stream: …`."""
        return self._stream()

    def confirm(self) -> Awaitable[None]:
        """Finished with it."""
        handed = self._handed
        incoming: Incoming = handed.incoming
        if self._verdict:
            self._decide("confirmed")
            return incoming.confirmed_again(handed.generation)
        self._verdict = "confirmed"
        return incoming.note_confirm(handed.first + self._index, handed.generation)

    async def reply(self, data: Any = None, *, timeout: float | None = None, **fields: Unpack[EventFields]) -> Receipt:
        """Answer whoever sent it: an event to its `reply_to`, with its `correlation_id` (or its id, if it has none).

        BadEvent when it names no `reply_to`; NoSuchDestination when whoever asked is gone.
        """
        from holdfast.client.request_reply import reply

        return await reply(self, self._handed.incoming._session, data, timeout, fields)

    def release(self, delay: float = 0.0) -> Awaitable[None]:
        """Give it back, to be delivered again in `delay` seconds at the earliest."""
        delay_ms = milliseconds(delay)
        incoming: Incoming = self._handed.incoming
        if self._decide("released"):
            incoming.note("release", self.position, self._handed.generation, delay_ms=delay_ms)
        return incoming.noted

    def reject(self, reason: str | BaseException) -> Awaitable[None]:
        """Refuse it for good. The reason, in words or as the exception it came from, is kept with it among the dead events."""
        said = checked_reason(reason)
        incoming: Incoming = self._handed.incoming
        if self._decide("rejected"):
            incoming.note("reject", self.position, self._handed.generation, reason=said)
        return incoming.noted


def milliseconds(delay: float) -> int:
    if not isinstance(delay, int | float) or not 0 <= delay <= DELAY_SECONDS_MAX:
        raise BadSetting(f"a delay of {delay!r} s is not possible; give seconds, 0 for at once", delay=delay)
    return round(delay * 1000)
