"""Receiving without a loop: slices come over whole, verdicts go over together.

with queue.receive() as incoming:
    for event in incoming:
        with event.open_stream() as stream:
            stream.save("order.pdf")
        event.confirm()

with queue.receive() as incoming:
    for batch in incoming.batches():
        for event in batch:
            …
        batch.confirm()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import length_hint
from types import TracebackType
from typing import Any, NamedTuple, Self, Unpack

from holdfast.blocking.event_stream import EventStream
from holdfast.blocking.hand_over import HandOver
from holdfast.client.receipt import Receipt
from holdfast.client.receiving.attachment.attachment import ranges_of
from holdfast.client.receiving.death import checked_code, checked_reason
from holdfast.client.receiving.incoming import Incoming as AsyncIncoming
from holdfast.client.receiving.incoming import Positions, check_unopened
from holdfast.client.receiving.receive_buffer import RunTaker
from holdfast.client.receiving.received_batch import Batch
from holdfast.client.receiving.received_batch import EncodedBatch as AsyncEncodedBatch
from holdfast.client.receiving.received_event import Received, ReceivedSlice, checked_release
from holdfast.client.receiving.receiver import Receiver
from holdfast.client.receiving.verdict_buffer import Verdict
from holdfast.client.sending.outgoing import EventFields
from holdfast.errors import Closed, HoldfastError
from holdfast.event.position import Ranges
from holdfast.node.background import Background, shared_background


class Noted(NamedTuple):
    verdict: Verdict
    position: int
    generation: int
    delay_ms: int | None = None
    reason: str = ""
    last: int = 0  # of a run that is confirmed together
    origin: Receiver | None = None  # through which it came


class ReceivedEvent(Received, eq=False):
    """An event as `for event in incoming` hands it out. A verdict is noted here, and travels together with others."""

    _verdicts: Any = None

    def open_stream(self) -> EventStream:
        """Read its data piece by piece, large or not: `with event.open_stream() as stream: for chunk in stream: …`."""
        return EventStream(shared_background(), self._stream())

    def confirm(self) -> None:
        """Finish it; in client mode, finish everything that the session was handed."""
        if self._decide("confirmed") or isinstance(self._verdicts, AtOnce):
            self._note("confirm")

    def reply(self, data: Any = None, *, timeout: float | None = None, **fields: Unpack[EventFields]) -> Receipt:
        """Reply to it: send an event to its `reply_to`, with its `correlation_id`, or its id if it has none."""
        session = self._slice.origin.session
        reply = session.connection.requests.reply(self, session, data, timeout, fields)
        receipt: Receipt = shared_background().run(reply)
        return receipt

    def release(self, delay: float | None = None, reason: str | BaseException = "") -> None:
        """Give it back, to be delivered again in `delay` seconds, 0 for at once; without, after the back-off of its destination.
        The last reason is kept, and told with the event if it is redelivered too often."""
        delay_ms, said = checked_release(delay, reason)
        if self._decide("released"):
            self._note("release", delay_ms, said)

    def reject(self, reason: str | BaseException) -> None:
        """Refuse it for good. The reason is kept with it."""
        said = checked_reason(reason)
        if self._decide("rejected"):
            self._note("reject", None, said)

    def _note(self, verdict: Verdict, delay_ms: int | None = None, reason: str = "") -> None:
        self._verdicts.put(Noted(verdict, self.position, self._slice.generation, delay_ms, reason, 0, self._slice.origin))


class ReceivedBatch(Batch[ReceivedEvent]):
    """Events as `for batch in incoming.batches()` hands them out. A verdict is noted here, and travels together with others."""

    __slots__ = ("_verdicts",)

    def __init__(self, received: ReceivedSlice, taken: range, verdicts: HandOver[Noted]) -> None:
        super().__init__(received, taken)
        self._verdicts = verdicts

    def _make(self) -> list[ReceivedEvent]:
        return [ReceivedEvent(self.slice, index, _verdicts=self._verdicts) for index in self.taken]

    def confirm(self) -> None:
        """Finish all of it. Events on which the program has decided already keep their verdicts."""
        is_again = self._is_confirmed
        undecided = self._undecided()
        if undecided is None or (is_again and isinstance(self._verdicts, AtOnce)):
            self._verdicts.put(Noted("confirm", self.first, self.slice.generation, last=self.last, origin=self.slice.origin))
            return
        for event in undecided:
            event.confirm()

    def release(self, delay: float = 0.0) -> None:
        """Give back the events on which the program has not decided; they come again after `delay` seconds at the earliest."""
        for event in self:
            if not event.is_decided:
                event.release(delay)


class EncodedBatch(AsyncEncodedBatch):
    """An unopened batch as `for batch in incoming.encoded()` hands it out. A verdict is noted here, and travels together with
    others."""

    __slots__ = ("_verdicts",)

    def __init__(self, received: ReceivedSlice, taken: range, verdicts: HandOver[Noted]) -> None:
        super().__init__(received, taken)
        self._verdicts = verdicts

    @property
    def events(self) -> ReceivedBatch:  # type: ignore[override]  # the twin of what it is there
        """Open it."""
        return ReceivedBatch(self.slice, range(self.slice.events), self._verdicts)

    def confirm(self) -> None:  # type: ignore[override]  # as all verdicts here
        """Finish all of it."""
        self._verdicts.put(Noted("confirm", self.first, self.slice.generation, last=self.last, origin=self.slice.origin))


class AtOnce(HandOver[Noted]):
    """Verdicts that are taken over before the program goes on: they are about what it was handed by then."""

    def put(self, item: Noted) -> None:
        super().put(item)
        self._background.run(self._taken())
        self.raise_error()

    async def _taken(self) -> None:
        self.take_over()


class Incoming:
    """Events as they come in: `with queue.receive() as incoming: for event in incoming: …`."""

    def __init__(self, background: Background, make: Callable[[], AsyncIncoming]) -> None:
        self._background = background
        self._make = make
        self._incoming: AsyncIncoming | None = None
        self._slice: ReceivedSlice | None = None
        self._end = 0  # of the run
        self._indices = iter(range(0))  # of the run; each index is taken once, here or in the other thread
        self._in_hand: ReceivedEvent | ReceivedBatch | None = None  # of one that confirms an event when the next is asked for
        self._verdicts: HandOver[Noted] = HandOver(background, self._note)

    def _unwrapped(self) -> AsyncIncoming:
        if self._incoming is None:
            raise Closed("the receiver is not open; use it inside `with queue.receive() as incoming`")
        return self._incoming

    def _opened(self) -> Receiver:
        return self._unwrapped()._receiver

    def _note(self, noted: Noted) -> None:
        verdicts = (noted.origin or self._opened()).verdicts
        if noted.last:
            verdicts.confirm_run(noted.position, noted.last, noted.generation)
        elif noted.verdict == "confirm":
            verdicts.confirm(noted.position, noted.generation)
        else:
            verdicts.note(*noted[:-2])

    def open(self) -> Self:
        self._incoming = self._background.run(self._make_open())
        if self._opened().mode.name == "client":
            self._verdicts = AtOnce(self._background, self._note)
        return self

    async def _make_open(self) -> AsyncIncoming:
        return await self._make().open(self._taker_of)

    def _taker_of(self, receiver: Receiver) -> RunTaker:
        return RunTaker(partial(self._unseen, receiver), self._handed_on, partial(self._take_back, receiver))

    def _unseen(self, receiver: Receiver) -> Ranges:
        """In the other thread: events that came through this receiver, lie here, and were not handed out."""
        self._verdicts.take_over()
        left = length_hint(self._indices)
        if self._slice is None or self._slice.origin is not receiver or not left or self._is_stale(self._slice):
            return Ranges()
        end = self._slice.first + self._end
        return Ranges.of((end - left, end - 1))

    def _handed_on(self, newest: ReceivedSlice, taken: int) -> int:
        """In the other thread: how many events of the newest slice were handed out."""
        if self._slice is not newest:  # it is coming over
            return 0
        return self._end - length_hint(self._indices)

    def _take_back(self, receiver: Receiver) -> Ranges:
        """In the other thread: take what lies here and was not handed out. Neither thread gets an index that the other has."""
        received = self._slice
        left = list(self._indices) if received is not None and received.origin is receiver else []
        if received is None or not left or self._is_stale(received):
            return Ranges()
        return Ranges.of((received.first + left[0], received.first + left[-1]))

    def _is_stale(self, received: ReceivedSlice) -> bool:
        """Tell whether it was given back meanwhile."""
        return bool(received.generation != received.origin.verdicts.generation)

    def close(self, timeout: float | None = None) -> None:
        """Send the verdicts, wait until they are applied, and give back the rest."""
        self._finish(is_done=True)
        self._background.run(self._unwrapped().close(timeout))
        self._indices = iter(range(0))
        self._verdicts.raise_error()

    def _finish(self, *, is_done: bool) -> None:
        """Decide on the event in hand, unless the program has, or has given it back by recovering."""
        event, self._in_hand = self._in_hand, None
        if event is None or event.is_decided or (event.slice.origin.is_recovered and self._is_stale(event.slice)):
            return
        if is_done:
            event.confirm()
        else:
            event.release()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            self._finish(is_done=False)
        try:
            self.close()
        except HoldfastError:
            if error is None:
                raise

    def __iter__(self) -> Iterator[ReceivedEvent]:
        self._opened()
        while True:
            try:
                event = self.next()
            except Closed:
                return
            yield event

    def next(self, timeout: float | None = None) -> ReceivedEvent:
        """The next event. TimedOut when none comes in time; Closed after the receiver was closed."""
        self._finish(is_done=True)
        event = self._take(timeout)
        while self._is_skipped(event):
            event = self._take(timeout)
        if self._opened().mode.name in ("auto", "duplicates-ok"):
            self._in_hand = event
        return event

    def _take(self, timeout: float | None) -> ReceivedEvent:
        while (event := self._next_of_run()) is None:
            self._take_over_run(*self._background.run(self._next_run(timeout)))
        return event

    def _next_of_run(self) -> ReceivedEvent | None:
        """The next event of the run; None if it is used up, or was given back."""
        received = self._slice
        if received is None or self._is_stale(received):
            return None
        index = next(self._indices, -1)
        return None if index < 0 else ReceivedEvent(received, index, _verdicts=self._verdicts)

    def _take_over_run(self, received: ReceivedSlice, taken: range) -> None:
        if received is not self._slice:
            self._slice = None
        self._end = taken.stop
        self._indices = iter(taken)
        self._slice = received  # last: the other thread looks at all three

    def _is_skipped(self, event: ReceivedEvent) -> bool:
        """Whether it went to others, or expired, before the program was handed it."""
        receiver: Receiver = event.slice.origin
        if receiver.outbox.lost and self._background.run(self._skip(receiver, event.position)):
            return True
        if (
            not receiver.buffer.is_expiring(event.slice)
            or not 0 < event.expires_at_ms <= receiver.session.connection.server_time.now_ms()
        ):
            return False
        self._background.run(self._skip_expired(receiver, event.position))
        return True

    def batches(self) -> Iterator[ReceivedBatch]:
        """The events in batches, as they came: `for batch in incoming.batches()`. Less work for each event than one by one."""
        self._opened()
        while True:
            self._finish(is_done=True)
            try:
                batch = self._rest_of_run() or self._background.run(self._next_batch())
            except Closed:
                return
            if self._opened().mode.name in ("auto", "duplicates-ok"):
                self._in_hand = batch
            yield batch

    def encoded(self) -> Iterator[EncodedBatch]:
        """The batches as they came, unopened: `for batch in incoming.encoded()`. For programs that pass them on."""
        check_unopened(self._opened())
        while True:
            try:
                batch = self._background.run(self._next_encoded())
            except Closed:
                return
            yield batch

    async def _next_encoded(self) -> EncodedBatch:
        self._verdicts.take_over()
        incoming = self._unwrapped()
        incoming._leave_unopened()
        received, taken = await (await incoming._turn()).mode.next_run(is_whole=True)
        return EncodedBatch(received, taken, self._verdicts)

    def _rest_of_run(self) -> ReceivedBatch | None:
        """The next event that `next` left of its run, as a batch."""
        while (event := self._next_of_run()) is not None:
            if not self._is_skipped(event):
                return ReceivedBatch(event.slice, range(event._index, event._index + 1), self._verdicts)
        return None

    async def _next_batch(self) -> ReceivedBatch:
        self._verdicts.take_over()
        received, taken = await (await self._unwrapped()._turn()).mode.next_run(is_whole=True)
        return ReceivedBatch(received, taken, self._verdicts)

    async def _skip(self, receiver: Receiver, position: int) -> bool:
        return receiver.verdicts.skip_lost(position)

    async def _skip_expired(self, receiver: Receiver, position: int) -> None:
        receiver.verdicts.skip_expired(position)

    async def _next_run(self, timeout: float | None) -> tuple[ReceivedSlice, range]:
        self._verdicts.take_over()
        return await (await self._unwrapped()._turn(timeout)).mode.next_run(timeout)

    @property
    def identity(self) -> str:
        """The subscription in one text; "" before it is open."""
        return "" if self._incoming is None else self._incoming.identity

    @property
    def held(self) -> Ranges:
        """The positions that it holds."""
        return self._background.run(self._held())

    @property
    def lost(self) -> Ranges:
        """Of the positions that it came holding, those that are not its own."""
        return self._unwrapped().lost

    def confirm(self, ranges: Positions) -> Ranges:
        """Confirm events by their positions; those that it holds, which are returned."""
        return self._background.run(self._decide("confirm", ranges_of(ranges)))

    def release(self, ranges: Positions, delay: float | None = None, reason: str | BaseException = "") -> Ranges:
        """Give events back by their positions."""
        delay_ms, said = checked_release(delay, reason)
        return self._background.run(self._decide("release", ranges_of(ranges), delay_ms, said))

    def reject(self, ranges: Positions, reason: str | BaseException, code: str = "") -> Ranges:
        """Refuse events for good by their positions; with the code of a death elsewhere, if there was one."""
        told = (checked_reason(reason), checked_code(code))
        return self._background.run(self._decide("reject", ranges_of(ranges), None, *told))

    async def _held(self) -> Ranges:
        return self._unwrapped().held

    async def _decide(
        self, verdict: Verdict, ranges: Ranges, delay_ms: int | None = None, reason: str = "", code: str = ""
    ) -> Ranges:  # fmt: skip
        self._verdicts.take_over()
        return self._unwrapped()._alone().verdicts.decide(verdict, ranges, delay_ms, reason, code)

    def settled(self, timeout: float | None = None) -> None:
        """Wait until all verdicts so far are applied. Raises the first that was refused."""
        self._background.run(self._settled(timeout))
        self._verdicts.raise_error()

    async def _settled(self, timeout: float | None) -> None:
        self._verdicts.take_over()
        await self._unwrapped().settled(timeout)
