"""One link of a client manager: frames in; receipts, answers and deliveries back as frames.

A frame that breaks the rules of the conversation ends the link with a Goodbye that says why; a request that is merely refused
is answered with Failed, and the link goes on. Nothing a client says can do more than end its own link.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.bus.message import CreditGranted, Delivered, ReceiverGone
from holdfast.channel.channel import Pressure, Purpose, Receipt
from holdfast.destination import command
from holdfast.errors import HoldfastError, ProtocolError, TooLarge
from holdfast.event import batch
from holdfast.node.request import Request, check_destination, check_number
from holdfast.session.session import Session
from holdfast.wire import frame
from holdfast.wire.conversation import Conversation, Role, State, choose_version, farewell
from holdfast.wire.frame import Frame
from holdfast.wire.link import Link

if TYPE_CHECKING:
    from holdfast.node.client_manager import ClientManager

log = logging.getLogger("holdfast.client_link")

# Bodies of one Deliver frame; a batch is at most 1 MiB, so that a frame of one slice always fits.
DELIVER_BYTES = 512 << 10


class ClientLink:
    def __init__(self, link: Link, manager: ClientManager) -> None:
        self._link = link
        self._manager = manager
        self._conversation = Conversation(Role.SERVER, manager.settings.heartbeat_ms)
        self._sessions: dict[int, Session] = {}
        self._numbers: dict[str, int] = {}
        self._attached: set[tuple[str, int]] = set()  # receivers that have attached over this link
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None
        link.received = self._received
        link.lost = self._lost
        self._tick()

    # --- frames in ---------------------------------------------------------------------------------------------------

    def _received(self, got: Frame) -> None:
        if self._is_over or self._conversation.state is State.ENDED:
            return
        try:
            reply = self._conversation.hear(got)
            if reply is not None:
                self._say(0, reply)
            else:
                self._handle(got)
        except HoldfastError as problem:
            self.end(problem)

    def _handle(self, got: Frame) -> None:
        message = got.message
        if isinstance(message, frame.Send):
            self._send(got.session, self._session(got.session), message, got.body)
        elif isinstance(message, frame.Credit):
            self._credit(self._session(got.session), message)
        elif isinstance(message, frame.OpenSession):
            # Whether a session can be resumed is known only when the channel is replayed; a new one need not wait.
            opening = partial(self._open_session, got.session, message)
            self._manager.messages.when_primary(opening) if message.resume else opening()
        elif isinstance(message, frame.Hello):
            self._welcome(message)
        elif isinstance(message, frame.Goodbye):
            self.end(None)
        elif got.session:
            self._ask(got.session, self._session(got.session), message)

    def _session(self, number: int) -> Session:
        session = self._sessions.get(number)
        if session is None:
            raise ProtocolError(f"session {number} is not open on this link; open it first", session=number)
        return session

    def _welcome(self, hello: frame.Hello) -> None:
        settings = self._manager.settings
        version = choose_version(hello)
        self._say(0, frame.Welcome(version, settings.name, frame.FRAME_BYTES_MAX, settings.heartbeat_ms, settings.window))

    def _open_session(self, number: int, message: frame.OpenSession) -> None:
        if self._is_over:
            return
        if number in self._sessions:
            self.end(ProtocolError(f"session number {number} is taken on this link; count up from 1", session=number))
            return
        session, first_id, is_resumed = self._manager.open_session(message.name, message.resume, self)
        self._sessions[number] = session
        self._numbers[session.id] = number
        self._say(number, frame.SessionOpened(message.token, session.id, first_id.to_bytes(16, "big"), is_resumed))
        pressure = self._manager.channel.pressure
        if pressure.is_short:
            self.tell_pressure(pressure)

    def _send(self, number: int, session: Session, message: frame.Send, body: frame.Buffer) -> None:
        made, payload = command.decode(body)
        if not isinstance(made, command.BatchCommand):
            raise ProtocolError(f"a Send frame carries a {type(made).__name__} command instead of a batch")
        session.check_producer(made.producer)
        check_number(made.sequence)
        session.sent()
        try:
            batch.verify(payload)
            check_destination(self._manager, made.destination, message.kind)
        except HoldfastError as problem:
            session.receipted()
            self._say(number, frame.Failed.of(message.token, problem))
            return
        future = self._manager.channel.append(body, Purpose.EVENTS)
        future.add_done_callback(lambda done: self._receipted(number, session, message.token, done))

    def _receipted(self, number: int, session: Session, token: int, done: asyncio.Future[Receipt]) -> None:
        problem = asyncio.CancelledError() if done.cancelled() else done.exception()
        if self._is_over or self._sessions.get(number) is not session:
            return
        session.receipted()
        if problem is None:
            receipt = done.result()
            self._say(number, frame.Receipted(token, receipt.entry, receipt.copies, receipt.is_synced))
            if not session.unreceipted:
                self._link.flush()  # nothing else will come to travel with it
        elif isinstance(problem, HoldfastError):
            self._say(number, frame.Failed.of(token, problem))
        else:
            self.end(HoldfastError(f"the server failed on a batch: {problem!r}; send it again over a new link"))

    def _credit(self, session: Session, message: frame.Credit) -> None:
        if message.events < 0 or message.bytes < 0:
            raise ProtocolError("credit is granted, never taken back; close the receiver instead")
        if message.receiver in session.receivers:
            self._manager.tell_messages(CreditGranted(session.id, message.receiver, message.events, message.bytes))

    def _ask(self, number: int, session: Session, message: Any) -> None:
        """A frame with a token: answered exactly once."""
        session.asked()

        def reply(told: frame.Message) -> None:
            if not self._is_over and self._sessions.get(number) is session:
                session.answered()
                self._note_attached(session.id, message, isinstance(told, frame.Answered))
                self._answer(number, told)

        request = Request(
            self._manager,
            session,
            lambda value: reply(frame.Answered(message.token, value)),
            lambda problem: reply(frame.Failed.of(message.token, problem)),
        )
        request.begin(message)

    def _note_attached(self, session: str, message: Any, is_done: bool) -> None:
        if is_done and isinstance(message, frame.Attach):
            self._attached.add((session, message.receiver))
        elif is_done and isinstance(message, frame.DetachReceiver):
            self._attached.discard((session, message.receiver))

    # --- frames out --------------------------------------------------------------------------------------------------

    def _answer(self, number: int, told: Any) -> None:
        try:
            self._say(number, told)
        except TooLarge as problem:
            self._say(number, frame.Failed.of(told.token, problem))

    def _say(self, session: int, message: frame.Message, body: frame.Buffer = b"") -> None:
        if self._conversation.state is not State.ENDED:
            self._conversation.say(session, message)
            self._link.send(Frame(session, message, body))
            if self._link.bytes_waiting > self._manager.settings.link_bytes_max and not isinstance(message, frame.Goodbye):
                self.end(ProtocolError("this client does not read what it asked for; its link is given up, its events are kept"))

    def deliver(self, message: Delivered) -> None:
        number = self._numbers.get(message.session)
        if number is None or (message.session, message.receiver) not in self._attached:
            return  # from before a lost link: the receiver did not say that it holds this, so it comes again
        begin, total = 0, 0
        for index, each in enumerate(message.slices):
            if total and total + len(each.batch) > DELIVER_BYTES:
                self._deliver(number, message, begin, index)
                begin, total = index, 0
            total += len(each.batch)
        self._deliver(number, message, begin, len(message.slices))
        self._link.flush()  # a handout is all there is for now: it does not wait for company

    def _deliver(self, number: int, message: Delivered, begin: int, end: int) -> None:
        chosen = message.slices[begin:end]
        slices = [frame.Slice(each.first, each.events, each.deliveries, each.is_adjoining, len(each.batch)) for each in chosen]
        body = chosen[0].batch if len(chosen) == 1 else b"".join(each.batch for each in chosen)
        self._say(number, frame.Deliver(message.receiver, slices), body)

    def receiver_gone(self, message: ReceiverGone) -> None:
        number = self._numbers.get(message.session)
        self._attached.discard((message.session, message.receiver))
        if number is not None:
            self._sessions[number].receivers.pop(message.receiver, None)
            self._say(number, frame.ReceiverClosed(message.receiver, message.code, message.sentence))

    def tell_pressure(self, pressure: Pressure) -> None:
        if self._conversation.state is State.OPEN:
            self._say(0, frame.PressureChanged(pressure.is_short, pressure.events_reserve_bytes, pressure.reason))

    # --- time and the end --------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        tick = self._conversation.tick(self._manager.now_ms() / 1000)
        if tick.is_dead:
            self.end(ProtocolError("nothing was heard on this link for three heartbeats; it is given up"))
            return
        for message in tick.to_say:
            self._say(0, message)
        self._timer = self._manager.clock.call_later(round(tick.again_in_s * 1000), self._tick)

    def drop_session(self, session: str) -> None:
        """The session goes on over another link, or is closed."""
        number = self._numbers.pop(session, None)
        if number is not None:
            del self._sessions[number]
            self._attached = {each for each in self._attached if each[0] != session}

    def end(self, problem: HoldfastError | None) -> None:
        """Say goodbye, with the reason, and close."""
        if problem is not None:
            log.info("link from %s ends: %s", self._link.peer, problem)
        self._say(0, farewell(problem))
        self._link.close()

    def _lost(self, problem: Exception | None) -> None:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._manager.link_lost(self, list(self._sessions.values()))
