"""Receiving without a loop: slices come over whole, verdicts go over together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, NamedTuple, Self, Unpack

from holdfast.blocking.background import Background, HandOver, shared_background
from holdfast.blocking.large import EventStream
from holdfast.client.death import checked_reason
from holdfast.client.outgoing import EventFields
from holdfast.client.receipt import Receipt
from holdfast.client.received import Handed, Received, milliseconds
from holdfast.client.recipient import Incoming as AsyncIncoming
from holdfast.client.request_reply import reply
from holdfast.client.verdicts import Verdict
from holdfast.errors import Closed, HoldfastError
from holdfast.event.position import Ranges


class Noted(NamedTuple):
    verdict: Verdict
    position: int
    generation: int
    delay_ms: int = 0
    reason: str = ""


class ReceivedEvent(Received, eq=False):
    """An event as `for event in incoming` hands it out. A verdict is noted, and travels together with others."""

    _verdicts: Any = None

    def open_stream(self) -> EventStream:
        """Read its data piece by piece, large or not: `with event.open_stream() as stream: for chunk in stream: …`."""
        return EventStream(shared_background(), self._stream())

    def confirm(self) -> None:
        """Finished with it; in client mode, with everything that the session was handed."""
        if self._decide("confirmed") or isinstance(self._verdicts, AtOnce):
            self._note("confirm")

    def reply(self, data: Any = None, *, timeout: float | None = None, **fields: Unpack[EventFields]) -> Receipt:
        """Answer whoever sent it: an event to its `reply_to`, with its `correlation_id` (or its id, if it has none)."""
        session = self._handed.incoming._session
        return shared_background().run(reply(self, session, data, timeout, fields))

    def release(self, delay: float = 0.0) -> None:
        """Give it back, to be delivered again in `delay` seconds at the earliest."""
        delay_ms = milliseconds(delay)
        if self._decide("released"):
            self._note("release", delay_ms)

    def reject(self, reason: str | BaseException) -> None:
        """Refuse it for good. The reason is kept with it."""
        said = checked_reason(reason)
        if self._decide("rejected"):
            self._note("reject", 0, said)

    def _note(self, verdict: Verdict, delay_ms: int = 0, reason: str = "") -> None:
        self._verdicts.put(Noted(verdict, self.position, self._handed.generation, delay_ms, reason))


class AtOnce(HandOver[Noted]):
    """Verdicts that are taken over before the program goes on: what it has been handed by then is what they are about."""

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
        self._handed: Handed | None = None
        self._indices = range(0)
        self._in_hand: ReceivedEvent | None = None  # where events are confirmed by asking for the next
        self._verdicts: HandOver[Noted] = HandOver(background, self._note)

    def _opened(self) -> AsyncIncoming:
        if self._incoming is None:
            raise Closed("the receiver is not open; use it inside `with queue.receive() as incoming`")
        return self._incoming

    def _note(self, noted: Noted) -> None:
        if noted.verdict == "confirm":
            self._opened().note_confirm(noted.position, noted.generation)
        else:
            self._opened().note(*noted)

    def open(self) -> Self:
        self._incoming = self._background.run(self._make_open())
        if self._incoming.MODE == "client":
            self._verdicts = AtOnce(self._background, self._note)
        return self

    async def _make_open(self) -> AsyncIncoming:
        incoming = self._make()
        incoming.ahead = self._ahead
        return await incoming.open()

    def _ahead(self) -> Ranges:
        """In the other thread: what lies here and was not handed out."""
        self._verdicts.take_over()
        if self._handed is None or not self._indices or self._is_stale(self._handed):
            return Ranges()
        return Ranges.of((self._handed.first + self._indices[0], self._handed.first + self._indices[-1]))

    def _is_stale(self, handed: Handed) -> bool:
        """It was given back meanwhile."""
        return handed.generation != self._opened().generation

    def close(self, timeout: float | None = None) -> None:
        """Send the verdicts, wait until they are applied, give back the rest."""
        self._finish(is_done=True)
        self._background.run(self._opened().close(timeout))
        self._indices = range(0)
        self._verdicts.raise_error()

    def _finish(self, *, is_done: bool) -> None:
        """Decide on the event in hand, unless the program has, or has given it back by recovering."""
        event, self._in_hand = self._in_hand, None
        if event is None or event.is_decided or (self._opened().is_recovered and self._is_stale(event._handed)):
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
        if not self._indices or self._handed is None or self._is_stale(self._handed):
            self._indices = range(0)
            self._handed, self._indices = self._background.run(self._next_run(timeout))
        index = self._indices[0]
        self._indices = self._indices[1:]
        event = ReceivedEvent(self._handed, index, _verdicts=self._verdicts)
        if self._opened().MODE in ("auto", "duplicates-ok"):
            self._in_hand = event
        return event

    async def _next_run(self, timeout: float | None) -> tuple[Handed, range]:
        self._verdicts.take_over()
        return await self._opened().next_run(timeout)

    def settled(self, timeout: float | None = None) -> None:
        """Wait until all verdicts so far are applied. Raises the first that was refused."""
        self._background.run(self._settled(timeout))
        self._verdicts.raise_error()

    async def _settled(self, timeout: float | None) -> None:
        self._verdicts.take_over()
        await self._opened().settled(timeout)
