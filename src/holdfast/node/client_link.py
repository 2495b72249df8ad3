"""One link of a client manager: frames in; receipts, answers and deliveries back as frames.

    Hello          ──▶ greeting ──▶ Welcome
    what is sent   ──▶ channel  ──▶ receipts
    what is asked  ──▶ asking   ──▶ answers

A frame that breaks the rules of the conversation ends the link with a Goodbye that says why; a request that is merely refused
is answered with Failed, and the link goes on. Nothing a client says can do more than end its own link.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from holdfast.bus.message import CreditGranted, Delivered, LinkCongested, ReceiverGone, Watermark
from holdfast.channel.channel import Pressure, Receipt
from holdfast.destination import command
from holdfast.errors import HoldfastError, ProtocolError
from holdfast.event import batch
from holdfast.node.asking import Asking
from holdfast.node.assembling import take_part
from holdfast.node.dead_letters import DEATHS_BYTES
from holdfast.node.greeting import Greeting
from holdfast.node.permission import check_access
from holdfast.node.request import check_number
from holdfast.node.sending import check_send
from holdfast.session.session import Session
from holdfast.wire import frame
from holdfast.wire.conversation import Conversation, Role, State, farewell
from holdfast.wire.frame import Frame
from holdfast.wire.link import Link

if TYPE_CHECKING:
    from holdfast.node.client_manager import ClientManager

log = logging.getLogger("holdfast.client_link")

# Sessions of one link: far more than our own clients open.
SESSIONS_MAX = 1_000
# Bodies of one Deliver frame; a batch is at most 1 MiB, so that a frame of one slice always fits.
DELIVER_BYTES = 512 << 10


class ClientLink:
    def __init__(self, link: Link, manager: ClientManager) -> None:
        self.sessions: dict[int, Session] = {}
        self.attached: set[tuple[str, int]] = set()  # receivers that have attached over this link
        self.is_lost = False
        self.greeting = Greeting(self, link, manager)
        self._asking = Asking(self, link, manager)
        self._link = link
        self._manager = manager
        self._conversation = Conversation(Role.SERVER, manager.settings.heartbeat_ms)
        self._numbers: dict[str, int] = {}
        self._held_up: set[str] = set()  # sessions that are handed nothing until the link has drained
        self._draining: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        link.received = self._received
        link.lost = self._lost
        self._tick()

    # --- frames in ---------------------------------------------------------------------------------------------------

    def _received(self, got: Frame) -> None:
        if self.is_lost or self._conversation.state is State.ENDED:
            return
        try:
            reply = self._conversation.hear(got)
            if reply is not None:
                self.say(0, reply)
            else:
                self._handle(got)
        except HoldfastError as problem:
            self.end(problem)

    def _handle(self, got: Frame) -> None:
        message = got.message
        if isinstance(message, frame.Send):
            self._send(got.session, self._session(got.session), message, got.body)
        elif isinstance(message, frame.Part):
            self._part(got.session, self._session(got.session), message, got.body)
        elif isinstance(message, frame.Browse):
            self._asking.browse(got.session, self._session(got.session), message)
        elif isinstance(message, frame.ReadFragment):
            self._asking.read_fragment(got.session, self._session(got.session), message)
        elif isinstance(message, frame.Credit):
            self._credit(self._session(got.session), message)
        elif isinstance(message, frame.OpenSession):
            # Whether a session can be resumed is known only when the channel is replayed; a new one need not wait.
            opening = partial(self._open_session, got.session, message)
            self._manager.messages.when_primary(opening) if message.resume else opening()
        elif isinstance(message, frame.Hello):
            self.greeting.hear(message)
        elif isinstance(message, frame.Goodbye):
            self.end(None)
        elif got.session:
            self._asking.request(got.session, self._session(got.session), message)

    def _session(self, number: int) -> Session:
        session = self.sessions.get(number)
        if session is None:
            raise ProtocolError(f"session {number} is not open on this link; open it first", session=number)
        return session

    def _open_session(self, number: int, message: frame.OpenSession) -> None:
        if self.is_lost:
            return
        if number in self.sessions:
            self.end(ProtocolError(f"session number {number} is taken on this link; count up from 1", session=number))
            return
        if len(self.sessions) >= SESSIONS_MAX:
            self.end(ProtocolError(f"a link carries at most {SESSIONS_MAX} sessions; close some, or use another link"))
            return
        session, first_id, is_resumed = self._manager.open_session(message.name, message.resume, self, message.is_resumable)
        self.sessions[number] = session
        self._numbers[session.id] = number
        self.say(number, frame.SessionOpened(message.token, session.id, first_id.to_bytes(16, "big"), is_resumed))
        self._manager.sending.tell_again(session.id)
        pressure = self._manager.channel.pressure
        if pressure.is_short:
            self.tell_pressure(pressure)

    def _send(self, number: int, session: Session, message: frame.Send, body: frame.Buffer) -> None:
        self._manager.vigil.came(session.id)
        made, payload = command.decode(body)
        if not isinstance(made, command.BatchCommand):
            raise ProtocolError(f"a Send frame carries a {type(made).__name__} command instead of a batch")
        session.check_producer(made.producer)
        check_number(made.sequence)
        session.sent()
        try:
            if session.rights is not None:
                check_access(session, "send", made.destination)
            batch.verify(payload)
            check_send(self._manager, made.destination, message.kind)
            if self._manager.sending.is_watching:
                self._manager.sending.check(session, made)
        except HoldfastError as problem:
            session.receipted()
            self.say(number, frame.Failed.of(message.token, problem))
            return
        self._manager.turns.submit(session.id, made, payload, partial(self._receipted, number, session, message.token))

    def _receipted(self, number: int, session: Session, token: int, outcome: Receipt | HoldfastError) -> None:
        if self.is_lost or self.sessions.get(number) is not session:
            return
        session.receipted()
        if isinstance(outcome, HoldfastError):
            self.say(number, frame.Failed.of(token, outcome))
            return
        receipted = frame.Receipted(token, outcome.entry, outcome.copies, outcome.is_synced)
        if session.unreceipted:
            self.say(number, receipted)
        else:  # nothing else will come to travel with it
            self._say_now(number, receipted)
            self._manager.vigil.receipted(session.id)

    def _part(self, number: int, session: Session, message: frame.Part, body: frame.Buffer) -> None:
        session.part_sent()

        def told(outcome: Receipt | HoldfastError) -> None:
            if self.is_lost or self.sessions.get(number) is not session:
                return
            session.part_receipted()
            if isinstance(outcome, HoldfastError):
                self.say(number, frame.Failed.of(message.token, outcome))
            else:
                self.say(number, frame.Receipted(message.token, outcome.entry, outcome.copies, outcome.is_synced))

        take_part(self._manager, session, message, body, told)

    def _credit(self, session: Session, message: frame.Credit) -> None:
        if message.events < 0 or message.bytes < 0:
            raise ProtocolError("credit is granted, never taken back; close the receiver instead")
        if message.receiver in session.receivers:
            granted = CreditGranted(session.id, message.receiver, message.events, message.bytes)
            self._manager.turns.grant(session.id, message.events, partial(self._manager.tell_messages, granted))

    # --- frames out --------------------------------------------------------------------------------------------------

    def say(self, session: int, message: frame.Message, body: frame.Buffer = b"") -> None:
        if self._conversation.state is not State.ENDED:
            self._conversation.say(session, message)
            self._link.send(Frame(session, message, body))
            self._check_reading(message)

    def _say_now(self, session: int, message: frame.Message, body: frame.Buffer = b"") -> None:
        """Say what does not wait for company."""
        if self._conversation.state is not State.ENDED:
            self._conversation.say(session, message)
            self._link.send_now(Frame(session, message, body))
            self._check_reading(message)

    def _check_reading(self, message: frame.Message) -> None:
        if self._link.bytes_waiting > self._manager.settings.link_bytes_max and not isinstance(message, frame.Goodbye):
            self.end(ProtocolError("this client does not read what it asked for; its link is given up, its events are kept"))

    def deliver(self, message: Delivered) -> None:
        number = self._numbers.get(message.session)
        if number is None or (message.session, message.receiver) not in self.attached:
            return  # from before a lost link: the receiver did not say that it holds this, so it comes again
        begin, total = 0, 0
        for index, each in enumerate(message.slices):
            size = len(each.batch) + (DEATHS_BYTES if each.deaths else 0)
            if total and total + size > DELIVER_BYTES:
                self._deliver(number, message, begin, index)
                begin, total = index, 0
            total += size
        self._deliver(number, message, begin, len(message.slices))
        if self._link.is_congested:
            self._hold_up(message.session)

    def _hold_up(self, session: str) -> None:
        """The client reads more slowly than it is sent to: nothing more is handed out to its sessions until the link has drained.
        The receipts and answers of others are not held up, nor is the link given up."""
        self._manager.tell_messages(LinkCongested(session, True))
        if not self._held_up:
            self._draining = asyncio.create_task(self._go_on_when_drained())
        self._held_up.add(session)

    async def _go_on_when_drained(self) -> None:
        await self._link.drained()
        held_up, self._held_up = self._held_up, set()
        for session in sorted(held_up):
            self._manager.tell_messages(LinkCongested(session, False))

    def _deliver(self, number: int, message: Delivered, begin: int, end: int) -> None:
        chosen = message.slices[begin:end]
        slices = [frame.Slice(*each[:4], len(each.batch), *each[5:]) for each in chosen]
        body = chosen[0].batch if len(chosen) == 1 else b"".join(each.batch for each in chosen)
        self._say_now(number, frame.Deliver(message.receiver, slices), body)  # a handout is all there is for now

    def receiver_gone(self, message: ReceiverGone) -> None:
        number = self._numbers.get(message.session)
        self.attached.discard((message.session, message.receiver))
        if number is not None:
            self.sessions[number].receivers.pop(message.receiver, None)
            self.say(number, frame.ReceiverClosed(message.receiver, message.code, message.sentence))

    def tell_watermark(self, session: str, level: Watermark) -> None:
        number = self._numbers.get(session)
        if number is not None:
            self.say(number, frame.DestinationPressure(level.destination, level.is_blocked, level.reason))

    def tell_pressure(self, pressure: Pressure) -> None:
        if self._conversation.state is State.OPEN:
            self.say(0, frame.PressureChanged(pressure.is_short, pressure.events_reserve_bytes, pressure.reason))

    # --- time and the end --------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        tick = self._conversation.tick(self._manager.now_ms() / 1000)
        if tick.is_dead:
            self.end(ProtocolError("nothing was heard on this link for three heartbeats; it is given up"))
            return
        for message in tick.to_say:
            self.say(0, message)
        self._timer = self._manager.clock.call_later(round(tick.again_in_s * 1000), self._tick)

    def drop_session(self, session: str) -> None:
        """The session goes on over another link, or is closed."""
        number = self._numbers.pop(session, None)
        if number is not None:
            del self.sessions[number]
            self.attached = {each for each in self.attached if each[0] != session}

    @property
    def is_ended(self) -> bool:
        """Nothing more is heard or said."""
        return self.is_lost or self._conversation.state is State.ENDED

    def end(self, problem: HoldfastError | None) -> None:
        """Say goodbye, with the reason, and close."""
        if problem is not None:
            log.info("link from %s ends: %s", self._link.peer, problem)
        self.say(0, farewell(problem))
        self._link.close()

    def _lost(self, problem: Exception | None) -> None:
        self.is_lost = True
        self._asking.stop()
        self.greeting.stop()
        if self._timer is not None:
            self._timer.cancel()
        self._manager.link_lost(self, list(self.sessions.values()))
