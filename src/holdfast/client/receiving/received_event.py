"""A received event: read where it lies in its batch, decoded when it is looked at.

    confirm    finished with it
    release    give it back, to be delivered again, to anyone, after a delay if one is given
    reject     refuse it for good: it goes to the dead events with the reason

A verdict is noted at once, and travels together with others. Awaiting it costs next to nothing, and does not wait until it is
applied: `await incoming.settled()`, or leaving the receiver, does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack, cast

import msgspec

from holdfast.client import checks
from holdfast.client.receiving.death import Death, checked_code, checked_reason, deaths_of, release_reason
from holdfast.client.receiving.large_event import EventStream
from holdfast.client.sending.outgoing import EventFields, OwnFields, SentOn
from holdfast.errors import BadEvent, Refused, TooLarge
from holdfast.event import identifier
from holdfast.event.batch import Batch
from holdfast.event.event import (
    NOT_READABLE,
    Event,
    Head,
    PropertyValue,
    data_decoder,
    decode_head,
    decode_heads,
    from_microseconds,
    is_json,
    unreadable_head,
)
from holdfast.wire.message_part import Death as TravellingDeath

if TYPE_CHECKING:
    from holdfast.client.receipt import Receipt
    from holdfast.client.receiving.receiver import Receiver
    from holdfast.client.receiving.verdict_buffer import Code, VerdictBuffer

# From so many events on, it pays to decode the data of a batch at once.
TOGETHER_MIN = 4
# Up to this size on average: large ones are not decoded faster together, and would all stay in memory.
TOGETHER_BYTES_MAX = 2 << 10


class ReceivedSlice(msgspec.Struct, eq=False):
    """A slice of a batch, as it was handed over."""

    origin: Any  # the receiver, browser or reading that it came through
    batch: Batch
    first: int
    events: int
    deliveries: int
    size: int
    generation: int
    destination: str = ""  # where it was sent, when that is not where the receiver is attached
    deaths: Sequence[TravellingDeath] = ()  # why these events are in the dead queue, if they are
    accepted_us: int = 0  # 0: not known
    is_returned: bool = False  # it came back before, although that did not count as a delivery
    # The data of all events, if all are bytes or all are text. None: not decoded yet; empty: each is decoded by itself.
    together: Sequence[bytes | str] | None = None
    unreadable: Sequence[int] = ()  # indices of heads that cannot be read, once `read_heads` has looked
    _heads: Sequence[Head] | None = None

    @property
    def last(self) -> int:
        """The position of its last event."""
        return self.first + self.events - 1

    def head(self, index: int) -> Head:
        """One head. The first call decodes all, which is twice as fast: a program that looks at one looks at its neighbours."""
        return (self._heads or self.read_heads())[index]

    def read_heads(self) -> Sequence[Head]:
        """All heads. One that cannot be read must not hide the others: it has the type UNREADABLE_TYPE."""
        if self._heads is None:
            try:
                self._heads = decode_heads(self.batch.heads, self.batch.count)
            except NOT_READABLE:
                self._heads = self._read_each()
        return self._heads

    def _read_each(self) -> Sequence[Head]:
        heads: list[Head] = []
        unreadable: list[int] = []
        for index in range(self.batch.count):
            try:
                heads.append(decode_head(self.batch.head(index)))
            except NOT_READABLE:
                heads.append(unreadable_head())
                unreadable.append(index)
        self.unreadable = unreadable
        return heads

    def readable(self) -> list[ReceivedSlice]:
        """The runs of events that can be read, each as a slice of its own."""
        ends = [*self.unreadable, self.batch.count]
        begins = [0, *(index + 1 for index in self.unreadable)]
        runs = [(begin, end) for begin, end in zip(begins, ends, strict=True) if begin < end]
        return [self.part(begin, end) for begin, end in runs]

    def part(self, begin: int, end: int) -> ReceivedSlice:
        """Events begin .. end - 1 of it, as a slice of their own."""
        return msgspec.structs.replace(
            self, batch=Batch(self.batch.slice(begin, end - begin)), first=self.first + begin, events=end - begin,
            size=self.size * (end - begin) // self.events, unreadable=(), _heads=self._heads and self._heads[begin:end],
            together=None,
        )  # fmt: skip

    def read_together(self) -> Sequence[bytes | str]:
        """Decode the data of all events at once, which takes half the time while they are small.

        JSON is decoded for each event by itself: a program that changes one value must not change another.
        """
        self.together = ()
        count = self.batch.count
        if count < TOGETHER_MIN or len(self.batch.data) > count * TOGETHER_BYTES_MAX:
            return ()
        types = {head.datacontenttype for head in self.read_heads()}
        if len(types) == 1 and not is_json(*types):
            self.together = self.batch.bodies_as(data_decoder(*types))
        return self.together


class Received(SentOn, msgspec.Struct, eq=False, gc=False):
    """One event of a queue or subscription. Its attributes are those of CloudEvents, and those of its delivery."""

    _slice: ReceivedSlice
    _index: int
    _verdict: str = ""

    def _decide(self, verdict: str) -> bool:
        """Note the verdict; whether it is new. An event has one verdict: the same again is passed over, another is refused."""
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
        return self._slice.head(self._index)

    # --- what was sent -----------------------------------------------------------------------------------------------

    @property
    def data(self) -> Any:
        """The data: bytes, text, or a value from JSON. TooLarge for a large event: see `open_stream`."""
        own, index = self._slice, self._index
        together = own.read_together() if own.together is None else own.together
        if together:
            return together[index]
        head, body = own.head(index), own.batch.body(index)
        return data_decoder(head.datacontenttype)(body if len(body) else self.body)

    @property
    def body(self) -> memoryview:
        """The data as it travelled, not decoded and not copied. TooLarge for a large event."""
        found = self._slice.batch.body(self._index)
        if not len(found) and self.is_large:
            raise TooLarge(
                f"the event at {self.position} has {self.size} bytes and is not in memory; read it with event.open_stream()",
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
        """The size of its data in bytes."""
        large = self._look().large
        return len(self._slice.batch.body(self._index)) if large is None else large.size

    @property
    def slice(self) -> ReceivedSlice:
        """The slice it came with."""
        return self._slice

    def decide_in_transaction(self) -> bool:
        """Let a transaction decide on it from now on; whether this is new."""
        return self._decide("confirmed in a transaction")

    def decide_anew(self) -> None:
        """Take back the confirm of a transaction that was rolled back and has kept its events."""
        self._verdict = ""

    def _stream(self) -> EventStream:
        receiver: Receiver = self._slice.origin
        large = self._look().large
        return EventStream(receiver.session, receiver.number, self.position, large, b"" if large is not None else self.body)

    @property
    def id(self) -> str:
        return self._look().id or identifier.to_text(self._slice.batch.first_id + self._index)

    @property
    def source(self) -> str:
        return self._look().source or self._slice.batch.source

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
        return int(self._slice.batch.priority)

    @property
    def expires_at_ms(self) -> int:
        """When it expires, in ms since 1970; 0 for never."""
        return self._look().expires_at_ms

    @property
    def head(self) -> Head:
        """Everything that was sent beside its data, as it travelled."""
        return self._look()

    def as_event(self, **fields: Unpack[EventFields]) -> Event:
        """The event, to be sent on, with other fields if some are given. It gets a new id when it is sent; with `keep_id` it
        keeps its own.

        Its data are the bytes that travelled, and its time to live is the rest. A request stays answerable: it carries its old
        id as correlation id. TooLarge for a large event, BadEvent for one that has expired.
        """
        if self.is_large:
            raise TooLarge(
                f"the event at {self.position} has {self.size} bytes and is not in memory; send it on "
                "with queue.send_stream(stream), where event.open_stream() opens the stream",
                position=self.position,
                size=self.size,
            )
        head, keep_id = self._look(), fields.pop("keep_id", False)
        own: OwnFields = {
            "type": head.type,
            "source": self.source,
            "id": self.id if keep_id else None,
            "time": self.time,
            "subject": head.subject,
            "datacontenttype": head.datacontenttype,
            "dataschema": head.dataschema,
            "properties": head.properties,
            "priority": self.priority,
            "ttl_ms": None if "ttl_ms" in fields else self._ttl_left_ms(),
            "group": head.group,
            "correlation_id": head.correlation_id or (self.id if head.reply_to else None),
            "reply_to": head.reply_to,
        }
        return Event(data=bytes(self.body), **(own | cast("OwnFields", fields)))

    def _ttl_left_ms(self) -> int | None:
        expires_at_ms = self.expires_at_ms
        if not expires_at_ms:
            return None
        left_ms: int = expires_at_ms - self._slice.origin.session.connection.server_time.now_ms()
        if left_ms <= 0:
            raise BadEvent(
                f"the event at {self.position} expired at {from_microseconds(expires_at_ms * 1000).isoformat()} and is not sent "
                "on; give it another time to live with ttl_ms=…, or none with ttl_ms=None",
                position=self.position,
            )
        return left_ms

    # --- its delivery ------------------------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        return self._slice.first + self._index

    @property
    def channel(self) -> str:
        """Of its position: that of one of several message managers; "" where there is one alone."""
        return str(self._slice.origin.session.channel)

    @property
    def deliveries(self) -> int:
        """How often it had been delivered before this time."""
        return self._slice.deliveries

    @property
    def accepted_at(self) -> datetime | None:
        """When the server accepted it, by the server's clock; None if an older server did not record it."""
        accepted_us = self._slice.accepted_us
        return from_microseconds(accepted_us) if accepted_us else None

    @property
    def redelivered(self) -> bool:
        """It was handed over before: to a program (`deliveries`), or to a client whose program did not take it. It may come after
        later events of its producer."""
        return self._slice.deliveries > 0 or self._slice.is_returned

    @property
    def destination(self) -> str:
        """Where it was sent: the topic, for a receiver of a pattern; the original destination, for a dead event."""
        return str(self._slice.destination or self._slice.origin.destination)

    @property
    def dead(self) -> tuple[Death, ...]:
        """Why it is in the dead queue `_DMQ`: one reason for each subscription that gave it up, oldest first.
        Empty for any other event."""
        return deaths_of(self._slice.deaths)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.destination!r} at {self.position}, id={self.id!r}, type={self.type!r})"


class ReceivedEvent(Received, eq=False, gc=False):
    """An event as `async for event in incoming` hands it out."""

    def open_stream(self) -> EventStream:
        """Read its data piece by piece: `async with event.open_stream() as stream: async for chunk in stream: …`."""
        return self._stream()

    def confirm(self) -> Awaitable[None]:
        """Say that the program has finished with it."""
        own = self._slice
        verdicts: VerdictBuffer = own.origin.verdicts
        if self._verdict:
            self._decide("confirmed")
            return verdicts.confirm_again(own.generation)
        self._verdict = "confirmed"
        return verdicts.confirm(own.first + self._index, own.generation)

    async def reply(self, data: Any = None, *, timeout: float | None = None, **fields: Unpack[EventFields]) -> Receipt:
        """Answer its sender: send an event to its `reply_to`, with its `correlation_id` (or its id, if it has none).

        BadEvent when it names no `reply_to`; NoSuchDestination when the sender is gone.
        """
        session = self._slice.origin.session
        receipt: Receipt = await session.connection.requests.reply(self, session, data, timeout, fields)
        return receipt

    def release(self, delay: float | None = None, reason: str | BaseException = "") -> Awaitable[None]:
        """Give it back, to be delivered again in `delay` seconds, 0 for at once; without, after the back-off of its destination.
        The last reason is kept, and told with the event if it is redelivered too often."""
        delay_ms, said = checked_release(delay, reason)
        verdicts: VerdictBuffer = self._slice.origin.verdicts
        if self._decide("released"):
            verdicts.note("release", self.position, self._slice.generation, delay_ms, said)
        return verdicts.noted

    def reject(self, reason: str | BaseException, *, code: Code = "") -> Awaitable[None]:
        """Refuse it for good. The reason, in words or as an exception, is kept with it among the dead events. A worker says the
        code `failed` after the last try."""
        said, _ = checked_reason(reason), checked_code(code)
        verdicts: VerdictBuffer = self._slice.origin.verdicts
        if self._decide("rejected"):
            verdicts.note("reject", self.position, self._slice.generation, reason=said, code=code)
        return verdicts.noted


def checked_release(delay: float | None, reason: str | BaseException) -> tuple[int | None, str]:
    return None if delay is None else checks.milliseconds(delay), release_reason(reason)
