"""The producer of a session gathers events into batches, keeps each batch until it is receipted, and sends batches again that a
lost link may have lost.

    send ─▶ open builder, one a destination ─▶ sealed, waiting for the window ─▶ in flight ─▶ receipted

There is no timer. A single event goes at once when nothing is in flight; a pipeline's builder goes at the next turn of the loop.
Otherwise a builder goes when it is full, or when the batch that was newest in flight when it was opened is receipted. So a lone
event never waits, and a flood fills its batches.

Rule 6. Batches are numbered (`batch_numbers`). After a lost link the producer asks for its last sequence, takes the receipts of
batches that arrived, and sends the rest again in order under the same numbers; the destination drops duplicates. A refused batch
leaves a hole in the numbers, and sending pauses until that is mended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.client.link.questions import Questions
from holdfast.client.receipt import Receipt
from holdfast.client.sending.batch_builder import BatchBuilder, Kind, Waiter
from holdfast.client.sending.batch_numbers import BatchNumbers
from holdfast.client.sending.encoded_run import EncodedRun
from holdfast.client.sending.outgoing import Outgoing
from holdfast.client.sending.send_waiters import SendWaiters
from holdfast.client.sending.unfinished_batches import UnfinishedBatches, nothing_left
from holdfast.errors import Blocked, HoldfastError, LinkLost, OutcomeUnknown
from holdfast.wire.frame import DestinationPressure, ForgetProducer, OpenProducer, Receipted, Send

# Identifiers left of a start at which a new one is fetched; a start has four thousand million.
IDENTIFIERS_LOW = 1 << 30


class Producer:
    def __init__(self, session: Questions, fetch_ids: Callable[[], None]) -> None:
        """`fetch_ids` is called when few identifiers are left of those that the session was given."""
        self.session = session
        self._fetch_ids = fetch_ids
        self._loop = session.connection.loop
        self._numbers = BatchNumbers()
        self._unfinished = UnfinishedBatches()
        self._outbox = self._unfinished.outbox
        self.flow = self._unfinished.flow
        self.waiters = SendWaiters(session, self._unfinished)
        self._is_turn_due = False
        self._is_opening = False

    # --- taking events -----------------------------------------------------------------------------------------------

    def builder_for(self, key: object, destination: str, kind: Kind, event: Outgoing | EncodedRun) -> BatchBuilder:
        """Find or open the builder for an event, or a run of them. Single sends share one for each destination; a pipeline has
        its own."""
        unfinished = self._unfinished
        found = unfinished.open.get(key)
        if found is not None:
            if found.takes(kind, event):
                return found
            unfinished.close(found)
        made = BatchBuilder(key, destination, kind, event.priority, event.delay_ms, after=self._numbers.next - 1)
        unfinished.open[key] = made
        if not (self._outbox.in_flight or self._is_turn_due):
            self._is_turn_due = True
            self._loop.call_soon(self._turn)
        return made

    def added(self, builder: BatchBuilder) -> None:
        """Send the builder if the event that was added made it full."""
        if builder.is_full:
            self._unfinished.close(builder)
            self.flush()

    def send(self, destination: str, kind: Kind, event: Outgoing, timeout: float) -> asyncio.Future[Receipt]:
        """Take an event; return the future of its receipt."""
        is_lone = self._is_idle()
        builder = (
            BatchBuilder(destination, destination, kind, event.priority, event.delay_ms, after=0)
            if is_lone
            else self.builder_for(destination, destination, kind, event)
        )
        receipt = self._add(builder, event, timeout)
        if is_lone:
            builder.is_open = False
            self._say_now(builder)
        else:
            self.added(builder)
        return receipt

    def try_send(
        self, destination: str, kind: Kind, event: Outgoing, timeout: float, is_patient: bool = False
    ) -> asyncio.Future[Receipt]:  # fmt: skip
        """As `send`, in a batch of its own, after earlier ones; refused, not held back, while the destination is full.
        `is_patient`: its receipt may come after its delivery."""
        if self.flow.is_blocked(destination):
            raise self.flow.refusal(destination)
        is_lone, unfinished = self._is_idle(), self._unfinished
        if destination in unfinished.open:
            unfinished.close(unfinished.open[destination])
        builder = BatchBuilder(self, destination, kind, event.priority, event.delay_ms, after=0)
        builder.is_open, builder.is_trying, builder.is_patient = False, True, is_patient
        receipt = self._add(builder, event, timeout)
        if is_lone:
            self._say_now(builder)
        else:
            self._outbox.waiting.append(builder)
            self.flush()
        return receipt

    def _say_now(self, builder: BatchBuilder) -> None:
        """Send a batch with which nothing is to be gathered: it goes within this call."""
        self._prepare(builder)
        said = Send(builder.sequence, builder.kind, builder.is_patient)
        self.session.connection.say_now(self.session.number, said, builder.command)

    def _add(self, builder: BatchBuilder, event: Outgoing, timeout: float) -> asyncio.Future[Receipt]:
        waiter = Waiter(builder.add(event), self._loop.create_future(), self._loop.time() + timeout)
        builder.waiters.append(waiter)
        self.waiters.alarm.watch(waiter.deadline)
        return waiter.future

    def _is_idle(self) -> bool:
        """Whether nothing is in flight or waits, and a batch can be sent at once."""
        outbox, numbers = self._outbox, self._numbers
        if outbox.in_flight or self._unfinished.open or outbox.waiting or numbers.hole is not None or self.flow.reasons:
            return False
        return bool(numbers.producer) and self.session.is_ready

    # --- sending -----------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        self._is_turn_due = False
        self.flush()

    def flush(self, receipted: int = -1) -> None:
        """Send all that may go: open builders that are due, and those that wait, as far as the window allows."""
        unfinished, outbox, numbers = self._unfinished, self._outbox, self._numbers
        if not self.session.is_ready or numbers.hole is not None:
            return
        if not numbers.producer:
            self._open_producer()
            return
        for builder in list(unfinished.open.values()):
            is_due = not outbox.in_flight or builder.after <= receipted
            if is_due and not self.flow.is_blocked(builder.destination):
                unfinished.close(builder)
        while outbox.waiting and len(outbox.in_flight) < outbox.window:
            builder = outbox.waiting.popleft()
            if builder.is_empty:
                builder.refuse(nothing_left())
            elif self.flow.is_blocked(builder.destination):
                self.flow.hold(builder)
            else:
                self._prepare(builder)
                self._say(builder)
        self.waiters.tell()

    def _prepare(self, builder: BatchBuilder) -> None:
        """Seal it and note it as in flight; the caller sends it next."""
        session, numbers = self.session, self._numbers
        builder.seal(numbers.producer, numbers.next, session.source, session.ids)
        if session.ids.left < IDENTIFIERS_LOW:
            self._fetch_ids()
        self._outbox.sent(numbers.next, builder)
        numbers.next += 1
        builder.was_sent = True

    def _say(self, builder: BatchBuilder) -> None:
        self.session.say(Send(builder.sequence, builder.kind, builder.is_patient), builder.command)

    # --- flow control ------------------------------------------------------------------------------------------------

    def note_pressure(self, message: DestinationPressure) -> None:
        """Note that a destination is full, or free again: then the batches held back for it go first."""
        if message.is_blocked:
            self.flow.block(message.destination, message.reason)
        else:
            self._outbox.go_first(self.flow.unblock(message.destination))
            self.flush()

    def link_lost(self) -> None:
        """Forget what is full: on the next link the server says it again."""
        self._outbox.go_first(self.flow.unblock_all())

    def give_up_unsent(self, builders: Iterable[BatchBuilder]) -> None:
        """Refuse those of these that were not sent because their destination is full: nobody waits for them any more."""
        self._unfinished.refuse_blocked(builders)
        self.waiters.tell()

    # --- answers -----------------------------------------------------------------------------------------------------

    def receipted(self, message: Receipted) -> None:
        builder = self._outbox.answered(message.token)
        if builder is None:
            return
        if self._numbers.hole is not None:
            self._numbers.accepted(message.token)
        builder.accept(message.entry, message.copies, message.is_synced, message.repeated, message.channel)
        self._go_on(message.token)

    def refused(self, sequence: int, error: HoldfastError) -> None:
        builder = self._outbox.answered(sequence)
        if builder is None:
            return
        self._numbers.refused(sequence, may_be_used=isinstance(error, OutcomeUnknown))
        if isinstance(error, Blocked) and "destination" in error.fields and not builder.is_trying:
            self.flow.take_back(builder)
        else:
            builder.refuse(error)
        self._go_on(sequence)

    def _go_on(self, sequence: int) -> None:
        outbox, numbers = self._outbox, self._numbers
        if numbers.hole is not None and not outbox.in_flight:
            self._mend()
        if outbox.waiting or self._unfinished.open or self.waiters.for_end or numbers.to_forget:
            self.flush(sequence)

    def _mend(self) -> None:
        self._numbers.mend()
        self._outbox.go_first(self.flow.returned())

    # --- opened and forgotten at the server --------------------------------------------------------------------------

    def _open_producer(self) -> None:
        if not self._is_opening and (self._outbox.waiting or self._unfinished.open or self._numbers.to_forget):
            self._is_opening = True
            self.session.connection.spawn(self._opened())

    async def _opened(self) -> None:
        try:
            if self._numbers.to_forget:
                await self._forget()
            answer = await self.session.ask(OpenProducer, self.session.connection.timeout)
            self._numbers.opened(answer["producer"], answer["last_sequence"])
        except OutcomeUnknown:
            pass  # no answer, or the link was lost: it is asked again, at once or after resuming
        except HoldfastError as error:
            self._unfinished.refuse_unsent(error)
            self.waiters.tell()
            return
        finally:
            self._is_opening = False
        self.flush()

    async def _forget(self) -> None:
        """Let the server place the batches behind the hole now, before all that a new producer sends."""
        producer = self._numbers.to_forget
        await self.session.ask(lambda token: ForgetProducer(token, producer), self.session.connection.timeout)
        self._numbers.to_forget = ""

    # --- living through links ----------------------------------------------------------------------------------------

    async def resume(self, window: int, deadline: float) -> None:
        """Ask what arrived, take its receipts, send the rest again in order (rule 6)."""
        outbox, numbers = self._outbox, self._numbers
        outbox.window = window
        if not numbers.producer:
            return
        answer: dict[str, Any] = await self.session.ask_now(
            lambda token: OpenProducer(token, numbers.producer), deadline, self.session.number
        )  # fmt: skip
        last_sequence = answer["last_sequence"]
        repeated = {entry: tuple(map(tuple, runs)) for entry, runs in answer.get("repeated", ())}
        for sequence in self._unfinished.accept_arrived(
            last_sequence, dict(map(tuple, answer["receipts"])), repeated, self.session.channel
        ):  # fmt: skip
            numbers.accepted(sequence)
        if numbers.is_forgotten(last_sequence, outbox.in_flight):
            self.begin_anew()
        for sequence, builder in list(outbox.in_flight.items()):
            if self.flow.is_behind(builder):  # not accepted either, and must not be before the other is
                outbox.answered(sequence)
                self.flow.take_back(builder)
            else:
                self._say(builder)
        if numbers.hole is not None and not outbox.in_flight:
            self._mend()

    def channel_changed(self) -> None:
        """Change nothing yet: a session that is not resumed begins its producer anew."""

    def begin_anew(self) -> None:
        """Refuse all that is in flight: the server has forgotten this producer, and whether they arrived is not known."""
        self._numbers.begin_anew()
        self._outbox.go_first(self.flow.returned())
        self._unfinished.refuse_in_flight(
            LinkLost("the link was lost for so long that the server forgot the session; whether this was accepted is not known")
        )

    def fail(self, error: HoldfastError) -> None:
        """Refuse everything: the client is closed."""
        self.waiters.alarm.cancel()
        self._unfinished.refuse_in_flight(
            LinkLost("the client was closed before the receipt came; whether this was accepted is not known")
        )
        self._unfinished.refuse_unsent(error)
        self.waiters.tell()

    async def flushed(self, timeout: float) -> None:
        """Wait until everything is receipted or refused."""
        await self.waiters.flushed(timeout)
