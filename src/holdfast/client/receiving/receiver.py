"""A receiver, from opening it to leaving it. It has a buffer, a credit, verdicts, and a confirm mode that hands events out.

    delivered ─▶ buffer ─▶ mode ─▶ the program ─▶ confirm, release, reject ─▶ verdicts ─▶ outbox ─▶ applied
                   │ credit: granted again for what is used up                          held until here

Attaching tells the server what the receiver holds: when it is opened, and again on every new link. Attaching twice changes
nothing else. The server gives to others what it is not told of, and answers which events the receiver holds no longer.

After a lost link the receiver attaches again, and verdicts that were not answered are sent again. Events that it holds no longer
are not handed out. If the program has such an event already, the first verdict on it counts, and the second hears
AlreadyFinished. If the server gave the session up meanwhile, everything that was held has gone to others: it is discarded here,
and a later verdict on it hears Detached.

Leaving waits until the verdicts are applied. Events that the program has seen and not decided on are released as delivered once
more; events that it never saw are released as if they had not been delivered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from holdfast.client import checks
from holdfast.client.checks import ConfirmMode
from holdfast.client.link.waiters import Waiters, until_given_up
from holdfast.client.receiving.attachment.attachment import Attachment, Holds
from holdfast.client.receiving.attachment.held import Held
from holdfast.client.receiving.confirm_modes import MODES
from holdfast.client.receiving.credit.prefetch_watch import PrefetchWatch
from holdfast.client.receiving.credit.receive_credit import ReceiveCredit
from holdfast.client.receiving.receive_buffer import ReceiveBuffer, RunTaker
from holdfast.client.receiving.receive_options import PLAIN, Asked
from holdfast.client.receiving.received_batch import ReceivedBatch
from holdfast.client.receiving.received_event import ReceivedEvent, ReceivedSlice
from holdfast.client.receiving.verdict_buffer import Settlement, VerdictBuffer
from holdfast.client.receiving.verdict_outbox import VerdictOutbox
from holdfast.client.sending.batch_builder import Kind
from holdfast.errors import (
    BatchDamaged,
    Closed,
    Detached,
    HoldfastError,
    LinkLost,
    OutcomeUnknown,
    Refused,
    SubscriptionInUse,
    TimedOut,
)  # fmt: skip
from holdfast.event.batch import Batch, UnreadBatch
from holdfast.event.position import Ranges
from holdfast.wire.frame import Attach, Buffer, DetachReceiver, Slice

if TYPE_CHECKING:
    from holdfast.client.connection.session import Session

NOT_OPEN = "the receiver is not open; use it inside `async with destination.receive() as incoming`"


class Receiver:
    """Receives from one queue or subscription, on behalf of the `Incoming` that a program has."""

    def __init__(
        self, session: Session, destination: str, kind: Kind, subscription: str, credit: int | None, credit_bytes: int,
        timeout: float | None, asked: Asked = PLAIN, confirm: ConfirmMode | None = None, holds: Holds | None = None,
    ) -> None:  # fmt: skip
        """`credit`: None for as much as is needed. `confirm`: the mode, if not the session's. `holds`: of a keeper."""
        name = session.confirm if confirm is None else checks.confirm_mode(confirm)
        make_mode, pace = MODES[name]
        self.session, self.destination, self.subscription = session, destination, subscription
        self.number = session.next_receiver()
        self.held = Held()
        self.buffer = ReceiveBuffer(destination, session.connection.server_time.now_ms)
        self._loop = session.connection.loop
        self.credit = ReceiveCredit(session, self.number, credit, credit_bytes, self.buffer.handed_last, self._loop.time)
        self.prefetch = PrefetchWatch(self, is_shared=kind == "queue" or asked.is_shared)
        self.mode = make_mode(session, name, pace, self.buffer, self.credit, self.until_one_is_here, timeout)
        self.outbox = VerdictOutbox(session, self.number, destination, self.held, self.end, self.buffer.handed_last)
        self.verdicts = VerdictBuffer(session.connection.loop, self.outbox, self.held, self.mode, self._refusal)
        self.attachment = Attachment(session, self.number, destination, kind, subscription, asked, self.held, holds)
        self._end: HoldfastError | None = Closed(NOT_OPEN)
        self.was_opened = False
        self._waiters = Waiters()  # for an event, or the end
        self.is_recovered = False  # the program gave everything back itself, by recovering

    # --- opening and leaving -----------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._end is None

    async def open(self, taker: RunTaker | None = None) -> None:
        """Attach; attaching again after a lost link changes nothing, so it is simply repeated."""
        if self.was_opened:
            raise Closed("a receiver is opened once; receive again for another")
        self.buffer.taker = taker or self.buffer.taker
        deadline = self.session.connection.deadline(self.session.connection.timeout)
        self.attachment.begin()
        while True:
            try:
                asked_s = self._loop.time()
                answer = await self.session.ask_again(self.attaching, deadline - asked_s)
                self.attachment.lose(self.attachment.attached(answer))
                self.credit.window.note_round_trip(self._loop.time() - asked_s)
                break
            except OutcomeUnknown:
                self.session.detach_later(self.number)
                raise
            except SubscriptionInUse as problem:
                await until_given_up(problem, deadline)
        self.was_opened, self._end = True, None
        self.session.receivers[self.number] = self
        self.credit.count_anew()
        self.credit.grant()

    async def close(self, timeout: float | None = None) -> None:
        """Send the verdicts, wait until they are applied, give back the rest."""
        if self.session.receivers.get(self.number) is not self:
            return
        allowed = checks.seconds(timeout, self.session.connection.timeout)
        was_over, is_detached = self._end is not None, False
        unseen = self.buffer.taker.unseen()
        if not was_over:
            self.mode.finish(is_done=True)
        self._end = self._end or Closed("the receiver was closed by this program; receive again to go on")
        self._stop_handing_out()
        try:
            if not was_over:
                await self.outbox.settled(allowed)
                self._release_seen(unseen)
                await self.outbox.settled(allowed)
                await self.session.ask(lambda token: DetachReceiver(token, self.number), allowed)
                is_detached = True
            self.outbox.raise_error()
        finally:
            self.verdicts.generation += 1  # a verdict that comes now is too late
            self.session.receivers.pop(self.number, None)
            if not (was_over or is_detached):
                self.session.detach_later(self.number)

    async def leave(self, error: BaseException | None) -> None:
        """Close it after a program that ended with this error, or without one."""
        if error is not None and self._end is None:
            self.mode.finish(is_done=False)
        try:
            await self.close()
        except HoldfastError:
            if error is None:
                raise

    def _release_seen(self, others: Iterable[tuple[int, int]]) -> None:
        """Release what is held and was seen by the program, but for these others. What a keeper holds goes back uncounted."""
        seen = self.held.copy()
        for first, last in (*self.buffer.untaken(), *others):
            seen.remove(first, last)
        if seen:
            self.outbox.settle(Settlement("release", seen.ranges(), is_counted=not self.attachment.is_keeping))

    # --- attaching ---------------------------------------------------------------------------------------------------

    def attaching(self, token: int) -> Attach:
        """The frame that says what the receiver holds."""
        return self.attachment.frame(token, self.outbox.given_back(), self.buffer.ahead_in_order())

    async def _attach_again(self, deadline: float) -> Ranges:
        """Attach on a new link; the events that it holds no longer."""
        self.attachment.is_again()
        while True:
            try:
                answer = await self.session.ask_now(self.attaching, deadline, self.session.number)
                return self.attachment.attached(answer)
            except SubscriptionInUse as problem:  # our own former session may still be on its way out
                await until_given_up(problem, deadline)

    # --- handing out -------------------------------------------------------------------------------------------------

    def events(self) -> AsyncIterator[ReceivedEvent]:
        """The events, one by one, until the receiver is closed."""
        if not self.was_opened:
            raise Closed(NOT_OPEN)
        return self.mode

    @property
    def has_run(self) -> bool:
        """An event is here, of the slice that is being handed out."""
        return self._end is None and self.buffer.index < self.buffer.ready and not self.buffer.is_delicate

    async def until_one_is_here(self, timeout: float | None) -> None:
        """Return when there is an event to take."""
        checks.same_loop(self._loop)
        buffer = self.buffer
        if self._end is None and buffer.index < buffer.ready and not buffer.is_delicate:  # as `has_run`, for every wait
            return
        deadline = None if timeout is None else self._loop.time() + timeout
        try:
            while self._end is None:
                self.prefetch.asked()
                if buffer.paused is None and (buffer.index < buffer.ready or self._step()):
                    if not buffer.is_delicate:
                        self.credit.hand(buffer.index + 1)
                        return
                    await self._tell_before(deadline)
                else:
                    self._say_idle()
                    await self._waiters.wait(deadline)
        except TimeoutError as problem:
            raise TimedOut(f"no event of {self.destination!r} came within {timeout:g} s") from problem
        raise self._end

    async def _tell_before(self, deadline: float | None) -> None:
        """An event comes that was delivered before, or the one before it was. It may end the program, so the server must know
        first what was finished before it."""
        async with asyncio.timeout_at(deadline):
            await self.outbox.sent()
        self.buffer.is_delicate = False

    def _step(self) -> bool:
        """Go to the next event; send verdicts on those that were set aside; grant credit again when half of it is used."""
        buffer = self.buffer
        before = buffer.current
        is_found = buffer.step(self.credit)
        if buffer.aside:
            for settlement in buffer.aside:
                self.outbox.settle(settlement)
            buffer.aside.clear()
        if before is not None and buffer.current is not before:
            self.credit.grant_due()
        return is_found

    def _say_idle(self) -> None:
        """No event is here. If events come one at a time, because one before may have ended the program, ask for the next."""
        if self.buffer.paused is None:
            self.credit.wait()
        if self.credit.is_careful:
            self.outbox.flush()
            self.credit.grant_used()
        elif self.mode.pace.is_sent_when_idle:
            self.outbox.flush()

    # --- verdicts ----------------------------------------------------------------------------------------------------

    async def settled(self, timeout: float | None = None) -> None:
        """Wait until all verdicts so far are applied. Raises the first that was refused."""
        await self.outbox.settled(checks.seconds(timeout, self.session.connection.timeout))
        self.outbox.raise_error()

    def _refusal(self) -> HoldfastError | None:
        """Why a verdict is too late, if this program closed or recovered; what the server gave up is told by `settled`."""
        if isinstance(self._end, Closed):
            return Closed("the receiver was closed before this verdict; the event was given back, and is delivered again")
        if self.is_recovered:
            return Refused("the session was recovered before this verdict; the event was given back, and is delivered again")
        return None

    # --- from the session --------------------------------------------------------------------------------------------

    def delivered(self, slices: Sequence[Slice], body: Buffer, is_careful: bool = False) -> None:
        if self._end is not None:
            return
        self.credit.is_careful = is_careful
        view, at, generation = memoryview(body), 0, self.verdicts.generation
        try:
            for each in slices:
                batch = (UnreadBatch if self.buffer.is_unopened else Batch)(view[at : at + each.length])
                batch.check()
                if batch.count != each.events:
                    raise BatchDamaged(f"a slice of {each.events} events came with {batch.count}; it was mixed up on the way")
                at += each.length
                last = each.first + each.events - 1
                self.held.add(each.first, last)
                self.outbox.delivered(each.first, last)
                self.outbox.verdicts.handed(each.first, last, each.is_adjoining)
                found = (each.first, each.events, each.deliveries, each.length, generation)
                said = (each.destination, each.deaths, each.accepted_us, each.is_returned)
                self.buffer.append(ReceivedSlice(self, batch, *found, *said))
        except HoldfastError as problem:
            self.end(problem)
            self.session.detach_later(self.number)
        if self._end is None:
            self.prefetch.delivered()
        if self.mode.at_once is None or not self._hand_at_once(self.mode.at_once):
            self._waiters.wake()

    def _hand_at_once(self, take: Callable[[ReceivedBatch], None]) -> bool:
        """Hand out what is here to a program that waits for it; whether there is nothing left for the task that waits."""
        if not (self.is_asked and self.is_taking):
            return False
        while self._step():
            if self.buffer.is_delicate:
                return False
            take(self.mode.batch_here())
        self._say_idle()
        return True

    def end(self, error: HoldfastError) -> None:
        """No more events will come, and verdicts will not be taken."""
        self._end = self._end or error
        self._discard(error)
        self._stop_handing_out()

    def _stop_handing_out(self) -> None:
        self.prefetch.stop()
        self._waiters.wake()

    def interrupt(self, error: HoldfastError) -> None:
        """Raise this in every task that waits for an event; the receiver goes on."""
        for future in self._waiters:
            if not future.done():
                future.set_exception(type(error)(error.sentence))
        self._waiters.clear()

    def _discard(self, error: HoldfastError) -> None:
        self.mode.discard(is_recovered=self.is_recovered)
        self.verdicts.generation += 1
        self.buffer.clear()
        self.outbox.discard(error)

    # --- living through links ----------------------------------------------------------------------------------------

    def give_up(self) -> None:
        """The session was not resumed: what was held has gone to others."""
        self.is_recovered = False
        self.outbox.forgotten()
        lost = f"the link was lost for so long that what was held of {self.destination!r} went to others; discard it"
        self._discard(Detached(lost))
        try:
            self.attachment.begin()
        except HoldfastError as problem:
            self.end(problem)

    async def resume(self, deadline: float) -> None:
        """Attach again on a new link, with what is held, and credit for what may come. Verdicts that were not answered go first:
        released events then belong to nobody when the server asks who holds what."""
        if self._end is not None and not isinstance(self._end, Closed):
            return
        self.outbox.send_again()
        try:
            lost = await self._attach_again(deadline)
        except LinkLost:
            raise
        except HoldfastError as problem:
            self.end(problem)
            return
        if lost:
            for first, last in self.buffer.lose(lost):
                self.held.remove(first, last)
            self.outbox.lose(lost)
            self.attachment.lost = lost
        self.credit.count_anew(self.buffer.unused())
        if self.is_taking:
            self.credit.grant()

    def go_on(self) -> None:
        """The whole session is resumed: grant the credit and send the verdicts that waited for it."""
        if self.is_taking:
            self.credit.grant_due()
        self.outbox.flush()

    @property
    def is_taking(self) -> bool:
        """What comes is for the program: it is neither being recovered nor given back."""
        return self.buffer.paused is None and self.prefetch.kept is None

    @property
    def is_asked(self) -> bool:
        """The program waits for an event."""
        return bool(self._waiters)

    # --- recovering: see `recovery` ----------------------------------------------------------------------------------

    async def give_back(self, deadline: float) -> None:
        """Release events that were seen and are undecided, and wait until that, and every verdict, is applied."""
        self._release_seen((*self.buffer.taker.unseen(), *self.outbox.decided()))
        await self.outbox.settled(max(0.0, deadline - self._loop.time()))

    async def attach_anew(self, deadline: float) -> None:
        """Say that nothing is held: events that were not seen go back too, and no more come without credit."""
        if self._end is not None:
            return
        allowed = deadline - self._loop.time()
        await self.session.ask_again(lambda token: msgspec.structs.replace(self.attaching(token), held=b"", ahead=b""), allowed)
        if not self.is_open:  # closed meanwhile, by the program or the server: nobody will receive here
            self.session.detach_later(self.number)
            return
        self.is_recovered = True
        self._discard(Refused("the session was recovered before this verdict; the event is delivered again"))
        self.credit.count_anew()

    def go_on_anew(self) -> None:
        """All receivers of the session hold nothing: let events come. After a failure, with the events that are still here."""
        if self.buffer.paused is not None:
            self.buffer.go_on()
            self.credit.grant_due()
            self._waiters.wake()
