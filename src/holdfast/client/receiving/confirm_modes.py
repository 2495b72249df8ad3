"""Confirm modes: how events are handed out, and when each counts as finished.

    mode             finished when                                             after a crash
    event            the program says so, event by event (the default)         what has no verdict comes again
    auto             the next event is asked for, or the receiver is left      the one in hand comes again
    duplicates-ok    as auto, but the server is told seldom, of many at once   some that were finished come again too
    client           the program confirms any event: then everything that      everything since the last confirm comes again
                     the session was handed so far is, over all receivers

With `batches` the same is true of batches: one is in hand, and is finished, or given back, as far as the program has not decided
on its events one by one.

In `auto` and `duplicates-ok` an event whose loop body raises is released, counted as delivered, and comes again; so is the one in
hand when a task is cancelled. A verdict that the program gives itself counts in every mode, for that event. In `client` mode
events that were not confirmed when a receiver is left are released.

A mode that confirms by itself has one event in hand, so one task at a time asks it. A second task is refused: its asking would
confirm the event that the first still works on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from holdfast.client import checks
from holdfast.client.checks import ConfirmMode
from holdfast.client.receiving.attachment.held import Held
from holdfast.client.receiving.credit.receive_credit import ReceiveCredit
from holdfast.client.receiving.receive_buffer import ReceiveBuffer
from holdfast.client.receiving.received_batch import ReceivedBatch
from holdfast.client.receiving.received_event import ReceivedEvent, ReceivedSlice
from holdfast.errors import Closed, Refused
from holdfast.event.position import Ranges

if TYPE_CHECKING:
    from holdfast.client.connection.session import Session


class Pace(NamedTuple):
    """When verdicts are sent although more are being noted."""

    noted_max: int
    noted_seconds_max: float  # how long the first of them may wait
    is_sent_when_idle: bool  # also when the program waits for an event


PROMPT = Pace(512, 0.005, is_sent_when_idle=True)
LAZY = Pace(10_000, 1.0, is_sent_when_idle=False)


class EventMode:
    """The program decides on each event by itself."""

    is_by_event: ClassVar[bool] = True  # a confirm is about one event

    def __init__(
        self,
        session: Session,
        name: ConfirmMode,
        pace: Pace,
        buffer: ReceiveBuffer,
        credit: ReceiveCredit,
        until_one_is_here: Callable[[float | None], Awaitable[None]],
        timeout: float | None,
    ) -> None:
        """`until_one_is_here` returns when the buffer has an event to take. `timeout`: for which it is waited by default."""
        self.name: ConfirmMode = name
        self.pace = pace
        self._session = session
        self._buffer = buffer
        self._credit = credit
        self._until_one_is_here = until_one_is_here
        self.timeout = checks.event_timeout(timeout)
        self.at_once: Callable[[ReceivedBatch], None] | None = None  # see `Incoming.take_at_once`

    # --- handing out -------------------------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedEvent:
        buffer = self._buffer
        index = buffer.index
        if index < buffer.ready:
            buffer.index = index + 1
            return ReceivedEvent(buffer.current, index)  # type: ignore[arg-type]  # there is one while `ready` says so
        try:
            await self._until_one_is_here(self.timeout)
        except Closed:
            raise StopAsyncIteration from None
        return buffer.take()

    async def next(self, timeout: float | None = None) -> ReceivedEvent:
        """The next event. TimedOut when none comes in time (0: when none is here); Closed after the receiver was closed."""
        await self._until_one_is_here(self.timeout if timeout is None else checks.event_timeout(timeout))
        return self._buffer.take()

    async def next_run(self, timeout: float | None = None, *, is_whole: bool = False) -> tuple[ReceivedSlice, range]:
        """At least one event, and with it more of its slice: the slice, and the indices in it. `is_whole`: the program is handed
        all of them now."""
        await self._until_one_is_here(self.timeout if timeout is None else checks.event_timeout(timeout))
        return self._run_here() if is_whole else self._buffer.take_run()

    def _run_here(self) -> tuple[ReceivedSlice, range]:
        received, taken = self._buffer.take_batch()
        self._credit.hand(taken.stop)
        return received, taken

    def batch_here(self) -> ReceivedBatch:
        """The batch that `step` of the buffer found."""
        return ReceivedBatch(*self._run_here())

    async def next_batch(self, timeout: float | None = None) -> ReceivedBatch:
        """At least one event, and with it the rest of its slice."""
        return ReceivedBatch(*await self.next_run(timeout, is_whole=True))

    # --- verdicts ----------------------------------------------------------------------------------------------------

    def finish(self, *, is_done: bool) -> None:
        """Decide on events as the program leaves; `is_done`: without an error."""

    def discard(self, *, is_recovered: bool) -> None:
        """Everything held was given back; `is_recovered`: by the program."""

    def forget(self, first: int, last: int) -> None:
        """These events were decided on elsewhere, or the program was not handed them."""

    def stands_for(self, position: int) -> Ranges:
        """The events that a verdict on an event that was given back is about."""
        return Ranges.of((position, position))

    def decide(self, position: int) -> None:
        """The program releases or rejects this event. Refused when it is confirmed already."""

    def confirm_session(self) -> None:
        """Confirm everything that the session was handed."""


class AutoMode(EventMode):
    """Confirms the event in hand when the next is asked for."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._in_hand: ReceivedEvent | ReceivedBatch | None = None
        self._asking: asyncio.Task[Any] | None = None  # the task that asked last
        self._is_asked = False

    async def __anext__(self) -> ReceivedEvent:
        buffer, event = self._buffer, self._in_hand
        index = buffer.index
        if index < buffer.ready and event is not None and asyncio.current_task() is self._asking:  # most of them
            if not event.is_decided:
                event.confirm()
            buffer.index = index + 1
            self._in_hand = taken = ReceivedEvent(buffer.current, index)  # type: ignore[arg-type]  # there is one
            return taken
        self._begin_asking()
        try:
            self._in_hand = taken = await super().__anext__()
            return taken
        finally:
            self._is_asked = False

    async def next(self, timeout: float | None = None) -> ReceivedEvent:
        """The next event; the one before is confirmed by asking."""
        self._begin_asking()
        try:
            self._in_hand = taken = await super().next(timeout)
            return taken
        finally:
            self._is_asked = False

    async def next_batch(self, timeout: float | None = None) -> ReceivedBatch:
        """The next batch; the one before is confirmed by asking."""
        self._begin_asking()
        try:
            self._in_hand = taken = await super().next_batch(timeout)
            return taken
        finally:
            self._is_asked = False

    def _begin_asking(self) -> None:
        task = asyncio.current_task()
        if self._asking is not None and self._asking is not task and not self._asking.done() and self._is_busy:
            raise Refused(
                f"another task has an event of {self._buffer.destination!r} in hand, or waits for one, and asking for the next "
                "would confirm it; give each task a receiver, or receive with confirm='event'"
            )
        self.finish(is_done=True)
        self._asking, self._is_asked = task, True

    @property
    def _is_busy(self) -> bool:
        return self._is_asked or (self._in_hand is not None and not self._in_hand.is_decided)

    def finish(self, *, is_done: bool) -> None:
        """Decide on the event in hand, unless the program has."""
        event, self._in_hand = self._in_hand, None
        if event is None or event.is_decided:
            return
        if is_done:
            event.confirm()
        else:
            event.release()

    def discard(self, *, is_recovered: bool) -> None:
        if is_recovered:  # the program gave the event back: it is told nothing
            self._in_hand = None


class ClientMode(EventMode):
    """A confirm of any event confirms all that the session was handed."""

    is_by_event: ClassVar[bool] = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._undecided = Held()
        self._given_up = Ranges()  # undecided when everything held was given back

    async def __anext__(self) -> ReceivedEvent:
        event = await super().__anext__()
        self._undecided.add_one(event.position)
        return event

    async def next(self, timeout: float | None = None) -> ReceivedEvent:
        event = await super().next(timeout)
        self._undecided.add_one(event.position)
        return event

    async def next_run(self, timeout: float | None = None, *, is_whole: bool = False) -> tuple[ReceivedSlice, range]:
        received, taken = await super().next_run(timeout, is_whole=is_whole)
        self._undecided.add(received.first + taken[0], received.first + taken[-1])
        return received, taken

    def discard(self, *, is_recovered: bool) -> None:
        self._given_up = self._undecided.ranges()
        self._undecided.clear()

    def forget(self, first: int, last: int) -> None:
        self._undecided.remove(first, last)

    def stands_for(self, position: int) -> Ranges:
        """A confirm is about everything that was handed out before it."""
        return Ranges.gather((*self._given_up, *([(position, position)] if position else [])))

    def decide(self, position: int) -> None:
        if position not in self._undecided:
            raise Refused(
                f"the event at {position} was confirmed already, together with another; decide on it before you confirm one",
                position=position,
            )
        self._undecided.remove(position, position)

    def confirm_session(self) -> None:
        for receiver in [each for session in self._session.together for each in session.receivers.values()]:
            if isinstance(receiver.mode, ClientMode):
                undecided, unseen = receiver.mode._undecided, receiver.buffer.taker.unseen()
                for first, last in unseen:
                    undecided.remove(first, last)
                receiver.verdicts.confirm_ranges(undecided.ranges())
                undecided.clear()
                for first, last in unseen:
                    undecided.add(first, last)


MODES: dict[ConfirmMode, tuple[type[EventMode], Pace]] = {
    "event": (EventMode, PROMPT),
    "auto": (AutoMode, PROMPT),
    "duplicates-ok": (AutoMode, LAZY),
    "client": (ClientMode, PROMPT),
}
