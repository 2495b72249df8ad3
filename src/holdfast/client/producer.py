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
import math
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from holdfast.client.gathering import Gathering, Kind, Waiter
from holdfast.client.outgoing import Outgoing
from holdfast.client.receipt import Receipt
from holdfast.errors import HoldfastError, LinkLost, OutcomeUnknown, TimedOut, Unreachable
from holdfast.wire.frame import ForgetProducer, OpenProducer, Receipted, Send

if TYPE_CHECKING:
    from holdfast.client.session import Session

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
        self._hole: int | None = None
        self._must_forget = False
        self._to_forget = ""
        self._is_turn_due = False
        self._is_opening = False
        self._waiting_for_room: list[asyncio.Future[None]] = []
        self._waiting_for_end: list[asyncio.Future[None]] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = math.inf

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

    async def send(self, destination: str, kind: Kind, event: Outgoing, timeout: float) -> Receipt:
        is_lone = self._is_idle()
        gathering = (
            Gathering(destination, destination, kind, event.priority, event.delay_ms, after=0)
            if is_lone
            else self.gathering(destination, destination, kind, event.priority, event.delay_ms)
        )
        deadline = self._loop.time() + timeout
        waiter = Waiter(gathering.add(event), self._loop.create_future(), deadline)
        gathering.waiters.append(waiter)
        self._watch(deadline)
        if is_lone:  # nothing to gather with: it goes within this call
            gathering.is_open = False
            self._transmit(gathering)
            self._session.connection.push()
        else:
            self.added(gathering)
        return await waiter.future

    def _is_idle(self) -> bool:
        """Nothing is under way or waits, and a batch can be sent at once."""
        if self._in_flight or self._open or self._waiting or self._hole is not None:
            return False
        return bool(self._id) and self._session.is_ready

    @property
    def has_room(self) -> bool:
        return len(self._waiting) < WAITING_MAX

    async def room(self, timeout: float) -> None:
        """Wait until a full batch may be added."""
        while not self.has_room:
            future = self._loop.create_future()
            self._waiting_for_room.append(future)
            try:
                async with asyncio.timeout(timeout):
                    await future
            except TimeoutError as problem:
                raise self._too_late(False, timeout) from problem

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
            if not self._in_flight or gathering.after <= receipted:
                self._close(gathering)
        while self._waiting and len(self._in_flight) < self._window:
            gathering = self._waiting.popleft()
            if gathering.is_empty:
                gathering.refuse(TimedOut("nothing was left of this batch"))
            else:
                self._transmit(gathering)
        self._tell_waiting()

    def _transmit(self, gathering: Gathering) -> None:
        gathering.seal(self._id, self._next, self._session.source, self._session.ids, time.time_ns() // 1_000_000)
        self._session.watch_ids()
        self._in_flight[self._next] = gathering
        self._next += 1
        self._say(gathering)

    def _say(self, gathering: Gathering) -> None:
        gathering.was_sent = True
        self._session.say(Send(gathering.sequence, gathering.kind), gathering.command)

    def _tell_waiting(self) -> None:
        if self._waiting_for_room and self.has_room:
            _wake(self._waiting_for_room)
        if self._waiting_for_end and not (self._in_flight or self._waiting or self._open):
            _wake(self._waiting_for_end)

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
        error = LinkLost(
            "the link was lost for so long that the server forgot the session; whether this was accepted is not known"
        )
        for gathering in lost.values():
            gathering.refuse(error)

    def _refuse_waiting(self, error: HoldfastError) -> None:
        refused = [*self._waiting, *self._open.values()]
        self._waiting.clear()
        self._open.clear()
        for gathering in refused:
            gathering.is_open = False
            gathering.refuse(error)
        self._tell_waiting()

    def fail(self, error: HoldfastError) -> None:
        """The client is closed."""
        if self._alarm is not None:
            self._alarm.cancel()
        in_flight, self._in_flight = self._in_flight, {}
        for gathering in in_flight.values():
            gathering.refuse(LinkLost("the client was closed before the receipt came; whether this was accepted is not known"))
        self._refuse_waiting(error)

    async def flushed(self, timeout: float) -> None:
        """Wait until everything is receipted or refused."""
        while self._in_flight or self._waiting or self._open:
            future = self._loop.create_future()
            self._waiting_for_end.append(future)
            try:
                async with asyncio.timeout(timeout):
                    await future
            except TimeoutError as problem:
                raise self._too_late(bool(self._in_flight), timeout) from problem

    # --- time --------------------------------------------------------------------------------------------------------

    def _watch(self, deadline: float) -> None:
        """One alarm for all: with equal timeouts it is set once and stays, however many sends come and go."""
        if deadline >= self._alarm_at:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = deadline
        self._alarm = self._loop.call_at(deadline, self._ring)

    def _ring(self) -> None:
        """Tell those whose time is over, and set the alarm for the next."""
        self._alarm, self._alarm_at = None, math.inf
        now = self._loop.time()
        for gathering in [*self._in_flight.values(), *self._waiting, *self._open.values()]:
            self._expire(gathering, now)
            for waiter in gathering.waiters:
                self._watch(waiter.deadline)

    def _expire(self, gathering: Gathering, now: float) -> None:
        late = [waiter for waiter in gathering.waiters if waiter.deadline <= now]
        if not late:
            return
        gathering.waiters = [waiter for waiter in gathering.waiters if waiter.deadline > now]
        for waiter in late:
            if not gathering.was_sent:
                gathering.withdraw(waiter.index)
            if not waiter.future.done():
                waiter.future.set_exception(self._too_late(gathering.was_sent))
        if not gathering.was_sent and gathering.is_empty:
            self._drop(gathering)

    def _drop(self, gathering: Gathering) -> None:
        """Nothing is left of it: while there is no link, such ones must not pile up."""
        if gathering.is_open:
            self._close(gathering)
        self._waiting.remove(gathering)
        gathering.refuse(TimedOut("nothing was left of this batch"))
        self._tell_waiting()

    def _too_late(self, was_sent: bool, timeout: float | None = None) -> HoldfastError:
        within = "" if timeout is None else f" within {timeout:g} s"
        if was_sent:
            return LinkLost(f"sent, and no receipt came{within}; it may have been accepted, or still be, once")
        if not self._session.is_ready:
            return Unreachable(f"no link to a server{within}; nothing was sent: {self._session.connection.problem_text}")
        return TimedOut(
            f"the server takes events more slowly than they are sent, and this was not sent{within}; send it again later"
        )


def _wake(waiting: list[asyncio.Future[None]]) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(None)
    waiting.clear()
