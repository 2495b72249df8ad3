"""The producer of a session: gathers events into batches, keeps each until it is receipted, sends again what a lost link may
have lost.

    note ─▶ open gathering, one a destination ─▶ sealed, waiting for the window ─▶ in flight ─▶ receipted

Without timers: a single event goes at once when nothing is in flight (a pipeline's gathering at the next turn of the loop);
otherwise a gathering goes when it is full, or when the batch that was newest in flight when it was opened is receipted. So a
lone event never waits, and a flood fills its batches.

Rule 6. Batches are numbered (`numbering`). After a lost link the producer asks for its last sequence, takes the receipts of what
arrived, and sends the rest again in order under the same numbers; duplicates are dropped at the destination. A refused batch
leaves a hole in the numbers, and sending pauses until that is mended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from holdfast.client.callers import Callers
from holdfast.client.gathering import Gathering, Kind, Waiter
from holdfast.client.numbering import Numbering
from holdfast.client.outgoing import Outgoing
from holdfast.client.receipt import Receipt
from holdfast.client.unfinished import Unfinished, nothing_left
from holdfast.errors import Blocked, HoldfastError, LinkLost, OutcomeUnknown
from holdfast.wire.frame import DestinationPressure, ForgetProducer, OpenProducer, Receipted, Send

if TYPE_CHECKING:
    from holdfast.client.session import Session

# Identifiers left of a start at which a new one is fetched; a start has four thousand million.
IDENTIFIERS_LOW = 1 << 30


class Producer:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._loop = session.connection.loop
        self._numbers = Numbering()
        self._unfinished = Unfinished()
        self.flow = self._unfinished.flow
        self.callers = Callers(session, self._unfinished)
        self._window = 1
        self._is_turn_due = False
        self._is_opening = False

    # --- taking events -----------------------------------------------------------------------------------------------

    def gathering(self, key: object, destination: str, kind: Kind, priority: int, delay_ms: int) -> Gathering:
        """The open gathering that such an event goes into. Single sends share one for each destination; a pipeline has its
        own."""
        unfinished = self._unfinished
        found = unfinished.open.get(key)
        if found is not None:
            if found.priority == priority and found.delay_ms == delay_ms and found.kind == kind:
                return found
            unfinished.close(found)
        made = Gathering(key, destination, kind, priority, delay_ms, after=self._numbers.next - 1)
        unfinished.open[key] = made
        if not (unfinished.in_flight or self._is_turn_due):
            self._is_turn_due = True
            self._loop.call_soon(self._turn)
        return made

    def added(self, gathering: Gathering) -> None:
        """An event was added; when the gathering is full it goes."""
        if gathering.is_full:
            self._unfinished.close(gathering)
            self.flush()

    def send(self, destination: str, kind: Kind, event: Outgoing, timeout: float) -> asyncio.Future[Receipt]:
        """Take an event; its receipt is to be waited for."""
        is_lone = self._is_idle()
        gathering = (
            Gathering(destination, destination, kind, event.priority, event.delay_ms, after=0)
            if is_lone
            else self.gathering(destination, destination, kind, event.priority, event.delay_ms)
        )
        receipt = self._add(gathering, event, timeout)
        if is_lone:  # nothing to gather with: it goes within this call
            gathering.is_open = False
            self._prepare(gathering)
            self._session.connection.say_now(self._session.number, Send(gathering.sequence, kind), gathering.command)
        else:
            self.added(gathering)
        return receipt

    def try_send(self, destination: str, kind: Kind, event: Outgoing, timeout: float) -> asyncio.Future[Receipt]:
        """As `send`, in a batch of its own, after what was sent before; refused, not held back, while the destination is full."""
        if self.flow.is_blocked(destination):
            raise self.flow.refusal(destination)
        unfinished = self._unfinished
        if destination in unfinished.open:
            unfinished.close(unfinished.open[destination])
        gathering = Gathering(self, destination, kind, event.priority, event.delay_ms, after=0)
        gathering.is_open, gathering.is_trying = False, True
        receipt = self._add(gathering, event, timeout)
        unfinished.waiting.append(gathering)
        self.flush()
        return receipt

    def _add(self, gathering: Gathering, event: Outgoing, timeout: float) -> asyncio.Future[Receipt]:
        waiter = Waiter(gathering.add(event), self._loop.create_future(), self._loop.time() + timeout)
        gathering.waiters.append(waiter)
        self.callers.alarm.watch(waiter.deadline)
        return waiter.future

    def _is_idle(self) -> bool:
        """Nothing is under way or waits, and a batch can be sent at once."""
        unfinished, numbers = self._unfinished, self._numbers
        if unfinished.in_flight or unfinished.open or unfinished.waiting or numbers.hole is not None or self.flow:
            return False
        return bool(numbers.producer) and self._session.is_ready

    # --- sending -----------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        self._is_turn_due = False
        self.flush()

    def flush(self, receipted: int = -1) -> None:
        """Send what may go: open gatherings whose time has come, full ones as far as the window allows."""
        unfinished, numbers = self._unfinished, self._numbers
        if not self._session.is_ready or numbers.hole is not None:
            return
        if not numbers.producer:
            self._open_producer()
            return
        for gathering in list(unfinished.open.values()):
            is_due = not unfinished.in_flight or gathering.after <= receipted
            if is_due and not self.flow.is_blocked(gathering.destination):
                unfinished.close(gathering)
        while unfinished.waiting and len(unfinished.in_flight) < self._window:
            gathering = unfinished.waiting.popleft()
            if gathering.is_empty:
                gathering.refuse(nothing_left())
            elif self.flow.is_blocked(gathering.destination):
                self.flow.hold(gathering)
            else:
                self._transmit(gathering)
        self.callers.tell()

    def _transmit(self, gathering: Gathering) -> None:
        self._prepare(gathering)
        self._say(gathering)

    def _prepare(self, gathering: Gathering) -> None:
        """It is under way from here on, and is sent next."""
        session, numbers = self._session, self._numbers
        gathering.seal(numbers.producer, numbers.next, session.source, session.ids, time.time_ns() // 1_000_000)
        if session.ids.left < IDENTIFIERS_LOW:
            session.fetch_ids()
        self._unfinished.in_flight[numbers.next] = gathering
        numbers.next += 1
        gathering.was_sent = True

    def _say(self, gathering: Gathering) -> None:
        self._session.say(Send(gathering.sequence, gathering.kind), gathering.command)

    # --- flow control ------------------------------------------------------------------------------------------------

    def told(self, message: DestinationPressure) -> None:
        """A destination is full, or free again: what was held back for it goes first."""
        if message.is_blocked:
            self.flow.block(message.destination, message.reason)
        else:
            self._unfinished.go_first(self.flow.unblock(message.destination))
            self.flush()

    def link_lost(self) -> None:
        """On the next link the server says again what is full."""
        self._unfinished.go_first(self.flow.unblock_all())

    def give_up_unsent(self, gatherings: Iterable[Gathering]) -> None:
        """Whoever made these waits no longer: what of them was not sent is refused, because its destination is full."""
        self._unfinished.refuse_blocked(gatherings)
        self.callers.tell()

    # --- what became of it -------------------------------------------------------------------------------------------

    def receipted(self, message: Receipted) -> None:
        gathering = self._unfinished.in_flight.pop(message.token, None)
        if gathering is None:
            return
        if self._numbers.hole is not None:
            self._numbers.accepted(message.token)
        gathering.accept(message.entry, message.copies, message.is_synced)
        self._go_on(message.token)

    def refused(self, sequence: int, error: HoldfastError) -> None:
        gathering = self._unfinished.in_flight.pop(sequence, None)
        if gathering is None:
            return
        self._numbers.refused(sequence, may_be_used=isinstance(error, OutcomeUnknown))
        if isinstance(error, Blocked) and "destination" in error.fields and not gathering.is_trying:
            self.flow.take_back(gathering)
        else:
            gathering.refuse(error)
        self._go_on(sequence)

    def _go_on(self, sequence: int) -> None:
        unfinished, numbers = self._unfinished, self._numbers
        if numbers.hole is not None and not unfinished.in_flight:
            self._mend()
        if unfinished.open or unfinished.waiting or self.callers.for_end or numbers.to_forget:
            self.flush(sequence)

    def _mend(self) -> None:
        self._numbers.mend()
        self._unfinished.go_first(self.flow.returned())

    # --- opened and forgotten at the server --------------------------------------------------------------------------

    def _open_producer(self) -> None:
        if not self._is_opening and (self._unfinished.waiting or self._unfinished.open or self._numbers.to_forget):
            self._is_opening = True
            self._session.connection.spawn(self._opened())

    async def _opened(self) -> None:
        try:
            if self._numbers.to_forget:
                await self._forget()
            answer = await self._session.ask(OpenProducer, self._session.connection.timeout)
            self._numbers.opened(answer["producer"], answer["last_sequence"])
        except OutcomeUnknown:
            pass  # no answer, or the link was lost: it is asked again, at once or after resuming
        except HoldfastError as error:
            self._unfinished.refuse_unsent(error)
            self.callers.tell()
            return
        finally:
            self._is_opening = False
        self.flush()

    async def _forget(self) -> None:
        """What it left behind a hole is placed now, before anything that a new producer sends."""
        producer = self._numbers.to_forget
        await self._session.ask(lambda token: ForgetProducer(token, producer), self._session.connection.timeout)
        self._numbers.to_forget = ""

    # --- living through links ----------------------------------------------------------------------------------------

    async def resume(self, window: int, deadline: float) -> None:
        """Rule 6: ask what arrived, take its receipts, send the rest again in order."""
        unfinished, numbers = self._unfinished, self._numbers
        self._window = window
        if not numbers.producer:
            return
        answer: dict[str, Any] = await self._session.ask_now(
            lambda token: OpenProducer(token, numbers.producer), deadline, self._session.number
        )  # fmt: skip
        last_sequence = answer["last_sequence"]
        for sequence in unfinished.accept_arrived(last_sequence, dict(map(tuple, answer["receipts"]))):
            numbers.accepted(sequence)
        if numbers.is_forgotten(last_sequence, unfinished.in_flight):
            self.begin_anew()
        for sequence in sorted(unfinished.in_flight):
            gathering = unfinished.in_flight[sequence]
            if self.flow.is_behind(gathering):  # not accepted either, and must not be before the other is
                self.flow.take_back(unfinished.in_flight.pop(sequence))
            else:
                self._say(gathering)
        if numbers.hole is not None and not unfinished.in_flight:
            self._mend()

    def begin_anew(self) -> None:
        """The server has forgotten this producer: what is in flight may have arrived or not, and its numbers mean nothing now."""
        self._numbers.begin_anew()
        self._unfinished.go_first(self.flow.returned())
        self._unfinished.refuse_in_flight(
            LinkLost("the link was lost for so long that the server forgot the session; whether this was accepted is not known")
        )

    def fail(self, error: HoldfastError) -> None:
        """The client is closed."""
        self.callers.alarm.cancel()
        self._unfinished.refuse_in_flight(
            LinkLost("the client was closed before the receipt came; whether this was accepted is not known")
        )
        self._unfinished.refuse_unsent(error)
        self.callers.tell()

    async def flushed(self, timeout: float) -> None:
        """Wait until everything is receipted or refused."""
        await self.callers.flushed(timeout)
