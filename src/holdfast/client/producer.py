"""The producer of a session: gathers events into batches, keeps each until it is receipted, sends again what a lost link may
have lost.

    note ─▶ open gathering, one a destination ─▶ sealed, waiting for the window ─▶ in flight ─▶ receipted

Without timers: a single event goes at once when nothing is in flight (a pipeline's gathering at the next turn of the loop);
otherwise a gathering goes when it is full, or when the batch that was newest in flight when it was opened is receipted. So a
lone event never waits, and a flood fills its batches.

Rule 6. Batches are numbered from 1. After a lost link the producer asks for its last sequence, takes the receipts of what
arrived, and sends the rest again in order under the same numbers; duplicates are dropped at the destination. A refused batch
leaves a hole in the numbers: sending pauses until all in flight are answered; then the numbers go back to the hole if nothing
behind it was accepted, otherwise the producer is forgotten (which places what was held behind the hole) and a new one is
opened.

A caller whose time is up hears Unreachable or TimedOut when its event was never sent (it is withdrawn), LinkLost when it was.
In the latter case the batch stays, and is sent again until the client is closed: it may still be accepted, once.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from holdfast.client.alarm import Alarm, too_late, wake
from holdfast.client.flow import Flow
from holdfast.client.gathering import Gathering, Kind, Waiter
from holdfast.client.outgoing import Outgoing
from holdfast.client.receipt import Receipt
from holdfast.errors import Blocked, HoldfastError, LinkLost, OutcomeUnknown, TimedOut
from holdfast.wire.frame import DestinationPressure, ForgetProducer, OpenProducer, Receipted, Send

if TYPE_CHECKING:
    from holdfast.client.session import Session

# Identifiers left of a start at which a new one is fetched; a start has four thousand million.
IDENTIFIERS_LOW = 1 << 30
# Full batches that may wait for the window before a pipeline is held back.
WAITING_MAX = 8


class Producer:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._loop = session.connection.loop
        self._id = ""
        self._next = 1
        self._window = 1
        self._open: dict[object, Gathering] = {}
        self._waiting: deque[Gathering] = deque()
        self._in_flight: dict[int, Gathering] = {}
        self.flow = Flow()
        self._hole: int | None = None
        self._must_forget = False
        self._to_forget = ""
        self._is_turn_due = False
        self._is_opening = False
        self._waiting_for_room: list[asyncio.Future[None]] = []
        self._waiting_for_end: list[asyncio.Future[None]] = []
        self._alarm = Alarm(self._loop, self._rang)

    # --- taking events -----------------------------------------------------------------------------------------------

    def gathering(self, key: object, destination: str, kind: Kind, priority: int, delay_ms: int) -> Gathering:
        """The open gathering that such an event goes into. Single sends share one for each destination; a pipeline has its
        own."""
        found = self._open.get(key)
        if found is not None:
            if found.priority == priority and found.delay_ms == delay_ms and found.kind == kind:
                return found
            self._close(found)
        made = Gathering(key, destination, kind, priority, delay_ms, after=self._next - 1)
        self._open[key] = made
        if not (self._in_flight or self._is_turn_due):
            self._is_turn_due = True
            self._loop.call_soon(self._turn)
        return made

    def added(self, gathering: Gathering) -> None:
        """An event was added; when the gathering is full it goes."""
        if gathering.is_full:
            self._close(gathering)
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
        if destination in self._open:
            self._close(self._open[destination])
        gathering = Gathering(self, destination, kind, event.priority, event.delay_ms, after=0)
        gathering.is_open, gathering.is_trying = False, True
        receipt = self._add(gathering, event, timeout)
        self._waiting.append(gathering)
        self.flush()
        return receipt

    def _add(self, gathering: Gathering, event: Outgoing, timeout: float) -> asyncio.Future[Receipt]:
        waiter = Waiter(gathering.add(event), self._loop.create_future(), self._loop.time() + timeout)
        gathering.waiters.append(waiter)
        self._alarm.watch(waiter.deadline)
        return waiter.future

    def _is_idle(self) -> bool:
        """Nothing is under way or waits, and a batch can be sent at once."""
        if self._in_flight or self._open or self._waiting or self._hole is not None or self.flow:
            return False
        return bool(self._id) and self._session.is_ready

    def has_room(self, destination: str) -> bool:
        """A full batch for this destination may be added."""
        return len(self._waiting) < WAITING_MAX and (not self.flow or self.flow.held_for(destination) < WAITING_MAX)

    async def room(self, destination: str, timeout: float) -> None:
        """Wait until a full batch may be added."""
        deadline = self._loop.time() + timeout
        while not self.has_room(destination):
            future = self._loop.create_future()
            self._waiting_for_room.append(future)
            try:
                async with asyncio.timeout_at(deadline):
                    await future
            except TimeoutError as problem:
                raise too_late(self._session, destination, False, timeout) from problem

    # --- sending -----------------------------------------------------------------------------------------------------

    def _close(self, gathering: Gathering) -> None:
        del self._open[gathering.key]
        gathering.is_open = False
        self._waiting.append(gathering)

    def _turn(self) -> None:
        self._is_turn_due = False
        self.flush()

    def flush(self, receipted: int = -1) -> None:
        """Send what may go: open gatherings whose time has come, full ones as far as the window allows."""
        if not self._session.is_ready or self._hole is not None:
            return
        if not self._id:
            self._open_producer()
            return
        for gathering in list(self._open.values()):
            is_due = not self._in_flight or gathering.after <= receipted
            if is_due and not self.flow.is_blocked(gathering.destination):
                self._close(gathering)
        while self._waiting and len(self._in_flight) < self._window:
            gathering = self._waiting.popleft()
            if gathering.is_empty:
                gathering.refuse(TimedOut("nothing was left of this batch"))
            elif self.flow.is_blocked(gathering.destination):
                self.flow.hold(gathering)
            else:
                self._transmit(gathering)
        self._tell_waiting()

    def _transmit(self, gathering: Gathering) -> None:
        self._prepare(gathering)
        self._say(gathering)

    def _prepare(self, gathering: Gathering) -> None:
        """It is under way from here on, and is sent next."""
        gathering.seal(self._id, self._next, self._session.source, self._session.ids, time.time_ns() // 1_000_000)
        if self._session.ids.left < IDENTIFIERS_LOW:
            self._session.fetch_ids()
        self._in_flight[self._next] = gathering
        self._next += 1
        gathering.was_sent = True

    def _say(self, gathering: Gathering) -> None:
        self._session.say(Send(gathering.sequence, gathering.kind), gathering.command)

    def _tell_waiting(self) -> None:
        if self._waiting_for_room and len(self._waiting) < WAITING_MAX:
            wake(self._waiting_for_room)
        if self._waiting_for_end and self._is_all_done:
            wake(self._waiting_for_end)

    @property
    def _is_all_done(self) -> bool:
        return not (self._in_flight or self._waiting or self._open) and self.flow.is_empty

    # --- flow control ------------------------------------------------------------------------------------------------

    def told(self, message: DestinationPressure) -> None:
        """A destination is full, or free again: what was held back for it goes first."""
        if message.is_blocked:
            self.flow.block(message.destination, message.reason)
        else:
            self._waiting.extendleft(reversed(self.flow.unblock(message.destination)))
            self.flush()

    def link_lost(self) -> None:
        """On the next link the server says again what is full."""
        self._waiting.extendleft(reversed(self.flow.unblock_all()))

    def give_up_unsent(self, gatherings: Iterable[Gathering]) -> None:
        """Whoever made these waits no longer: what of them was not sent is refused, because its destination is full."""
        for gathering in [each for each in gatherings if not each.was_sent and self.flow.is_blocked(each.destination)]:
            if self._open.get(gathering.key) is gathering:
                del self._open[gathering.key]
                gathering.is_open = False
            elif not self.flow.drop(gathering) and gathering in self._waiting:
                self._waiting.remove(gathering)
            gathering.refuse(self.flow.refusal(gathering.destination))
        self._tell_waiting()

    # --- what became of it -------------------------------------------------------------------------------------------

    def receipted(self, message: Receipted) -> None:
        gathering = self._in_flight.pop(message.token, None)
        if gathering is None:
            return
        if self._hole is not None and message.token > self._hole:
            self._must_forget = True
        gathering.accept(message.entry, message.copies, message.is_synced)
        self._go_on(message.token)

    def refused(self, sequence: int, error: HoldfastError) -> None:
        gathering = self._in_flight.pop(sequence, None)
        if gathering is None:
            return
        self._hole = sequence if self._hole is None else min(self._hole, sequence)
        self._must_forget |= isinstance(error, OutcomeUnknown)  # its number may be used
        if isinstance(error, Blocked) and "destination" in error.fields and not gathering.is_trying:
            self.flow.take_back(gathering)
        else:
            gathering.refuse(error)
        self._go_on(sequence)

    def _go_on(self, sequence: int) -> None:
        if self._hole is not None and not self._in_flight:
            self._mend()
        if self._open or self._waiting or self._waiting_for_end or self._to_forget:
            self.flush(sequence)

    def _mend(self) -> None:
        """Everything is answered and a number was not used: use it, or begin anew."""
        assert self._hole is not None
        if self._must_forget:
            self._to_forget = self._id
            self._id = ""
            self._next = 1
        else:
            self._next = self._hole
        self._hole = None
        self._must_forget = False
        self._waiting.extendleft(reversed(self.flow.returned()))

    async def _forget(self) -> None:
        """What it left behind a hole is placed now, before anything that a new producer sends."""
        producer = self._to_forget
        await self._session.ask(lambda token: ForgetProducer(token, producer), self._session.connection.timeout)
        self._to_forget = ""

    def _open_producer(self) -> None:
        if not self._is_opening and (self._waiting or self._open or self._to_forget):
            self._is_opening = True
            self._session.connection.spawn(self._opened())

    async def _opened(self) -> None:
        try:
            if self._to_forget:
                await self._forget()
            answer = await self._session.ask(OpenProducer, self._session.connection.timeout)
            self._id = answer["producer"]
            self._next = answer["last_sequence"] + 1
        except OutcomeUnknown:
            pass  # no answer, or the link was lost: it is asked again, at once or after resuming
        except HoldfastError as error:
            self._refuse_waiting(error)
            return
        finally:
            self._is_opening = False
        self.flush()

    # --- living through links ----------------------------------------------------------------------------------------

    async def resume(self, window: int, deadline: float) -> None:
        """Rule 6: ask what arrived, take its receipts, send the rest again in order."""
        self._window = window
        if not self._id:
            return
        answer: dict[str, Any] = await self._session.ask_now(
            lambda token: OpenProducer(token, self._id), deadline, self._session.number
        )  # fmt: skip
        self._take_receipts(answer["last_sequence"], dict(map(tuple, answer["receipts"])))
        unused = self._next if self._hole is None else self._hole
        if answer["last_sequence"] + 1 < min((*self._in_flight, unused)):
            self.begin_anew()
        for sequence in sorted(self._in_flight):
            if self.flow.is_behind(self._in_flight[sequence]):  # not accepted either, and must not be before the other is
                self.flow.take_back(self._in_flight.pop(sequence))
            else:
                self._say(self._in_flight[sequence])
        if self._hole is not None and not self._in_flight:
            self._mend()

    def _take_receipts(self, last_sequence: int, entries: dict[int, int]) -> None:
        for sequence in [each for each in sorted(self._in_flight) if each <= last_sequence or each in entries]:
            self._must_forget |= self._hole is not None and sequence > self._hole
            # How many copies there are was in the receipt that was lost: one is certain.
            self._in_flight.pop(sequence).accept(entries.get(sequence, 0), 1, False)

    def begin_anew(self) -> None:
        """The server has forgotten this producer: what is in flight may have arrived or not, and its numbers mean nothing now."""
        lost, self._in_flight = self._in_flight, {}
        self._id = self._to_forget = ""
        self._next = 1
        self._hole = None
        self._must_forget = False
        self._waiting.extendleft(reversed(self.flow.returned()))
        error = LinkLost(
            "the link was lost for so long that the server forgot the session; whether this was accepted is not known"
        )
        for gathering in lost.values():
            gathering.refuse(error)

    def _refuse_waiting(self, error: HoldfastError) -> None:
        refused = [*self.flow.give_up(), *self._waiting, *self._open.values()]
        self._waiting.clear()
        self._open.clear()
        for gathering in refused:
            gathering.is_open = False
            gathering.refuse(error)
        self._tell_waiting()

    def fail(self, error: HoldfastError) -> None:
        """The client is closed."""
        self._alarm.cancel()
        in_flight, self._in_flight = self._in_flight, {}
        for gathering in in_flight.values():
            gathering.refuse(LinkLost("the client was closed before the receipt came; whether this was accepted is not known"))
        self._refuse_waiting(error)

    async def flushed(self, timeout: float) -> None:
        """Wait until everything is receipted or refused."""
        while not self._is_all_done:
            future = self._loop.create_future()
            self._waiting_for_end.append(future)
            try:
                async with asyncio.timeout(timeout):
                    await future
            except TimeoutError as problem:
                raise too_late(self._session, "", bool(self._in_flight), timeout) from problem

    # --- time --------------------------------------------------------------------------------------------------------

    def _rang(self, now: float) -> None:
        """Tell those whose time is over, and set the alarm for the next."""
        for gathering in [*self._in_flight.values(), *self.flow, *self._waiting, *self._open.values()]:
            self._expire(gathering, now)
            for waiter in gathering.waiters:
                self._alarm.watch(waiter.deadline)

    def _expire(self, gathering: Gathering, now: float) -> None:
        late = [waiter for waiter in gathering.waiters if waiter.deadline <= now]
        if not late:
            return
        gathering.waiters = [waiter for waiter in gathering.waiters if waiter.deadline > now]
        for waiter in late:
            if not gathering.was_sent:
                gathering.withdraw(waiter.index)
            if not waiter.future.done():
                waiter.future.set_exception(too_late(self._session, gathering.destination, gathering.was_sent))
        if not gathering.was_sent and gathering.is_empty:
            self._drop(gathering)

    def _drop(self, gathering: Gathering) -> None:
        """Nothing is left of it: while there is no link, such ones must not pile up."""
        if gathering.is_open:
            self._close(gathering)
        if not self.flow.drop(gathering):
            self._waiting.remove(gathering)
        gathering.refuse(TimedOut("nothing was left of this batch"))
        self._tell_waiting()
