"""A session: a client's conversation with the server, which outlives links.

    questions    everything that is asked and answered (attach, manage, settle …), by token
    producer     events that were sent and are not receipted
    parts        of transactions and large events; stages have their own
    receivers    events that were handed over and are not confirmed

When a link is lost, the questions that were asked fail; producer and receivers know how to go on. On the next link the session
is resumed first. Then the producer asks what arrived and sends the rest again, and the receivers attach again with the events
they hold. Only then may the application use the link.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from holdfast.client.assembly.part_outbox import PartOutbox
from holdfast.client.assembly.stage import Stages
from holdfast.client.checks import ConfirmMode
from holdfast.client.connection.lanes import Lanes
from holdfast.client.link.questions import QUESTIONS_FROM, Questions
from holdfast.client.sending.producer import Producer
from holdfast.errors import HoldfastError, LinkLost, OutcomeUnknown, ProtocolError, TransactionAborted, Unavailable, by_code
from holdfast.event.identifier import Counter, take_apart
from holdfast.wire.frame import (
    Answered,
    Browsed,
    Buffer,
    CloseSession,
    Deliver,
    DestinationPressure,
    DetachReceiver,
    Failed,
    Fragment,
    Message,
    OpenSession,
    Receipted,
    ReceiverClosed,
    SessionOpened,
    SessionSuspended,
)

if TYPE_CHECKING:
    from holdfast.client.connection.connection import Connection
    from holdfast.client.receiving.receiver import Receiver

# A receiver that could not be detached is detached again after this.
DETACH_AGAIN_S = 0.1

# No process counts more than so many verdicts, or assemblies, in a millisecond of its life (as a power of two).
COUNTED_BITS = 14


class Session(Questions):
    connection: Connection

    def __init__(
        self,
        connection: Connection,
        name: str,
        source: str,
        confirm: ConfirmMode = "event",
        is_resumable: bool = True,
        lane_of: Session | None = None,
        channel: str = "",
    ) -> None:
        """A session that is not `is_resumable` begins anew on each link: the server gives it up when a link is lost.
        `lane_of`: the session that it is a lane of, in this channel."""
        super().__init__(connection, source)
        self.channel = self._channel_asked = channel
        self.is_lane = lane_of is not None
        # One session in each channel, where there are several.
        self.lanes: Lanes | None = None if lane_of is None else lane_of.lanes
        self.former: dict[str, str] = {}  # by channel: ids of a session before it, whose place its lanes take
        self.number = connection.next_number(self)
        self.is_inherited = False  # it goes on in the place of a session of a former process
        self.name = name
        self.confirm = confirm
        self.is_resumable = is_resumable
        self.producer = Producer(self, self.fetch_ids)
        self.parts = PartOutbox(self)
        self.stages = Stages(self, self.producer.flow)
        self.receivers: dict[int, Receiver] = {}
        self._receiver = 0
        self._is_fetching_ids = False
        self.recovering = asyncio.Lock()  # one recovery, or rollback, at a time
        self._ending = asyncio.Lock()
        self._has_ended = False

    async def at(self, destination: str, is_used: bool = True) -> Session:
        """Return the session to use for a destination: this one, or its lane in the channel of the destination."""
        return self if self.lanes is None else await self.lanes.at(destination, is_used)

    @property
    def is_alone(self) -> bool:
        return self.lanes is None

    @property
    def together(self) -> Sequence[Session]:
        """The sessions that a program has as one: this one, and its lanes in other channels."""
        return (self,) if self.lanes is None else self.lanes.open

    def next_receiver(self) -> int:
        self._receiver += 1
        return self._receiver

    # --- hearing -----------------------------------------------------------------------------------------------------

    def received(self, message: Message, body: Buffer) -> None:
        if isinstance(message, Receipted):
            self._receipted(message)
        elif isinstance(message, Deliver):
            self._deliver(message, body)
        elif isinstance(message, Answered):
            self._answer(message.token, message.value)
        elif isinstance(message, Failed):
            self._fail(message.token, message.error())
        elif isinstance(message, SessionOpened):
            self._answer(message.token, message)
        elif isinstance(message, Browsed):
            self._answer(message.token, (message, body))
        elif isinstance(message, Fragment):
            self._answer(message.token, body)
        elif isinstance(message, SessionSuspended):
            self.connection.suspended(self)
        elif isinstance(message, DestinationPressure):
            self.producer.note_pressure(message)
        elif isinstance(message, ReceiverClosed):
            receiver = self.receivers.get(message.receiver)
            if receiver is not None:
                receiver.end(by_code(message.code, f"receiving from {receiver.destination!r} ended: {message.sentence}", {}))

    def _receipted(self, message: Receipted) -> None:
        if message.token < QUESTIONS_FROM:
            self.producer.receipted(message)
        else:
            self._answer(message.token, message)

    def _deliver(self, message: Deliver, body: Buffer) -> None:
        if message.channel != self.channel:
            raise ProtocolError(f"events of channel {message.channel!r} came to a session of {self.channel!r}")
        receiver = self.receivers.get(message.receiver)
        if receiver is not None:
            receiver.delivered(message.slices, body, message.is_careful)

    def _fail(self, token: int, error: HoldfastError) -> None:
        if token < QUESTIONS_FROM:
            self.producer.refused(token, error)
        else:
            self._refuse(token, error)

    # --- living through links ----------------------------------------------------------------------------------------

    async def resume(self, window: int, deadline: float) -> None:
        """Go on, on a new link: first the session itself, then the producer, then the receivers."""
        resumed = self.id if self.is_resumable else ""
        opened: SessionOpened = await self.ask_now(
            lambda token: OpenSession(token, self.name, resumed, self.is_resumable, self.channel, self.connection.link_number),
            deadline,
            self.number,
        )
        first_id = int.from_bytes(opened.first_id, "big")
        self.ids = Counter(first_id)
        if self.is_inherited:
            self.is_inherited, self.counts_from = False, take_apart(first_id).start_ms << COUNTED_BITS
        self.id = opened.session
        self.channel = opened.channel
        self.incarnation = opened.incarnation or self.connection.incarnation
        if self.lanes is None and self.connection.channels:
            self.lanes = Lanes(self)
        if not opened.is_resumed:
            self._begin_anew()
        await self.producer.resume(window, deadline)
        for receiver in list(self.receivers.values()):
            await receiver.resume(deadline)
        self._check_link()
        self._be_ready()
        self.producer.flush()
        self.parts.go_on()
        for receiver in self.receivers.values():
            receiver.go_on()

    def forget(self) -> None:
        """Open a new session on this link: the server's channel is another one, in which the id of this session means nothing."""
        self.id = ""
        self.channel = self._channel_asked
        self.producer.channel_changed()

    def _begin_anew(self) -> None:
        """Give up all that the server forgot with the session. At once: the next link may be lost too, and then this session is
        resumed."""
        self.producer.begin_anew()
        self.parts.begin_anew(
            TransactionAborted("the link was lost for so long that the server forgot the session; begin again"),
            may_repeat=not self.receivers,  # verdicts on what they held mean nothing any more
        )
        for receiver in self.receivers.values():
            receiver.give_up()

    def link_lost(self, error: LinkLost) -> None:
        self.producer.link_lost()
        self._be_unready(error)

    def unreachable(self, error: HoldfastError) -> None:
        """Tell receivers that wait for events: there has been no link for longer than the client's timeout."""
        for receiver in self.receivers.values():
            receiver.interrupt(error)

    async def close(self, timeout: float, is_done: bool) -> None:
        """End in good order: receivers are closed, what was sent is receipted, and the server forgets the session.

        `is_done`: the program leaves without an error. Whoever closes it at the same time waits for that: the server answers
        nothing more to a session that it has forgotten.
        """
        async with self._ending:
            if self._has_ended:
                return
            if self.is_ready and self.receivers:
                await self._close_receivers(timeout, is_done)
            with contextlib.suppress(HoldfastError):
                await self.producer.flushed(timeout)
                if self.is_ready:
                    await self.ask(CloseSession, timeout)
            self._has_ended = True

    async def _close_receivers(self, timeout: float, is_done: bool) -> None:
        receivers = [each for each in self.receivers.values() if each.is_open]
        for receiver in receivers:
            receiver.mode.finish(is_done=is_done)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await asyncio.gather(*(receiver.close() for receiver in receivers), return_exceptions=True)

    def fail(self, error: HoldfastError) -> None:
        """Fail all that waits: the session, or the client, is closed."""
        self.is_ready = False
        self._closed = self._closed or error
        self.fail_ready(error)
        self.producer.fail(error)
        self.parts.give_up(error)
        for receiver in list(self.receivers.values()):
            receiver.end(error)

    def detach_later(self, receiver: int) -> None:
        """Detach a receiver that was not closed in good order: the server would go on holding events for it."""
        self.connection.spawn(self._detach(receiver))

    async def _detach(self, receiver: int) -> None:
        while True:
            try:
                await self.ask(lambda token: DetachReceiver(token, receiver), self.connection.timeout)
            except (OutcomeUnknown, Unavailable):
                await asyncio.sleep(DETACH_AGAIN_S)
                continue
            except HoldfastError:
                pass  # the client is closed, or the server has given it up already
            return

    # --- identifiers -------------------------------------------------------------------------------------------------

    def fetch_ids(self) -> None:
        """Fetch new identifiers before those that the server gave are used up."""
        if not self._is_fetching_ids:
            self._is_fetching_ids = True
            self.connection.spawn(self._fetch_ids())

    async def _fetch_ids(self) -> None:
        """Open a session for a moment, for the identifiers that it is given."""
        with contextlib.suppress(HoldfastError):
            async with self._passing_session() as first_id:
                self.ids = Counter(first_id)
        self._is_fetching_ids = False

    @contextlib.asynccontextmanager
    async def _passing_session(self) -> AsyncIterator[int]:
        number = self.connection.next_number(self)
        deadline = self.connection.deadline(self.connection.timeout)
        try:
            opened: SessionOpened = await self.ask_now(OpenSession, deadline, number)
            yield int.from_bytes(opened.first_id, "big")
            await self.ask_now(CloseSession, deadline, number)
        finally:
            self.connection.free_number(number)
