"""One link of a client manager: frames in; receipts, answers and deliveries back as frames.

    Hello          ──▶ Greeting     ──▶ Welcome
    Send, Part     ──▶ channel      ──▶ receipts
    requests       ──▶ LinkRequests ──▶ answers

A frame that breaks the rules of the conversation ends the link with a Goodbye that says why. A request that is merely refused is
answered with Failed, and the link goes on. Nothing a client says can do more than end its own link.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.bus.message import CreditGranted, Delivered, LinkCongested, ReceiverGone, Watermark
from holdfast.channel.channel import OnOutcome, Pressure, Receipt
from holdfast.destination import command
from holdfast.destination.state.deduplication import Repeated
from holdfast.errors import HoldfastError, ProtocolError
from holdfast.event import batch
from holdfast.event.selector.selector import parsed
from holdfast.node import supervision
from holdfast.node.clients.assembly_requests import take_part
from holdfast.node.clients.destination_checks import check_send, no_such_channel
from holdfast.node.clients.greeting import Greeting
from holdfast.node.clients.link_requests import HeldFrames, LinkRequests, long_selector_in
from holdfast.node.clients.requests import check_number
from holdfast.node.login.permission import check_access
from holdfast.node.reading.death_notes import DEATHS_BYTES
from holdfast.session.session import Session
from holdfast.wire import frame
from holdfast.wire.conversation import Conversation, Role, State, farewell
from holdfast.wire.frame import Frame
from holdfast.wire.link import Link

if TYPE_CHECKING:
    from holdfast.node.clients.client_manager import ClientManager
    from holdfast.node.clients.manager_link import ManagerLink


# Far more than our own clients open.
SESSIONS_MAX = 1_000
# The bodies of one Deliver frame. A batch has at most 1 MiB, so that a frame of one slice always fits.
DELIVER_BYTES = 512 << 10
# Longer selectors that may wait to be parsed: more than a program opens receivers at once, and a few MiB at the most.
PARSED_MAX = 1_024


class ClientLink:
    def __init__(self, link: Link, manager: ClientManager) -> None:
        self.is_lost = False
        self._link = link
        self._manager = manager
        self._conversation = Conversation(Role.SERVER, manager.settings.heartbeat_ms)
        self._sessions: dict[int, Session] = {}  # by their numbers on this link
        self._numbers: dict[str, int] = {}
        self._held = HeldFrames(self, manager)
        self._suspended: set[int] = set()  # numbers of sessions that were, which their clients may not know yet
        self._attached: set[tuple[str, int]] = set()  # receivers that have attached over this link
        self._held_up: dict[str, ManagerLink] = {}  # sessions that are delivered nothing until the link has drained
        self._draining: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._parsing: set[asyncio.Task[None]] = set()
        self.greeting = Greeting(self, link, manager)
        self._requests = LinkRequests(self, link, manager)
        link.received = self._received
        link.lost = self._lost
        self._tick()

    # --- frames in ---------------------------------------------------------------------------------------------------

    def _received(self, got: Frame) -> None:
        if not self.is_ended:
            self._take(got, self._hear)

    def go_on(self, got: Frame, is_learned: bool) -> None:
        """Handle a frame that waited."""
        if not self.is_ended:
            self._take(got, partial(self._handle, is_learned=is_learned))

    def _hear(self, got: Frame) -> None:
        reply = self._conversation.hear(got)
        if reply is not None:
            self.say(0, self._with_time(reply))
        elif selector := long_selector_in(got.message):
            self._parse_first(selector, got)
        else:
            self._handle(got)

    def _take(self, got: Frame, how: Callable[[Frame], None]) -> None:
        try:
            how(got)
        except HoldfastError as problem:
            self.end(problem)
        except Exception as problem:  # a fault of ours, or of the client: it costs this link alone
            supervision.report(f"a {type(got.message).__name__} frame from {self._link.peer}", problem)
            self.end(ProtocolError(f"this frame could not be taken: {supervision.described(problem)}"))

    def _parse_first(self, selector: str, got: Frame) -> None:
        """Parse a long selector in the shared turn, so that many of them hold up nobody else; then take its frame."""
        if len(self._parsing) >= PARSED_MAX:
            raise ProtocolError(
                f"{PARSED_MAX} long selectors of this link wait to be parsed; ask for the next when one is answered"
            )
        task = supervision.start(self._parse(selector, got), "parsing a selector")
        self._parsing.add(task)
        task.add_done_callback(self._parsing.discard)

    async def _parse(self, selector: str, got: Frame) -> None:
        await self._manager.turn.take(parsed(selector))
        self.go_on(got, is_learned=False)

    def _handle(self, got: Frame, is_learned: bool = False) -> None:
        """Handle a frame; `is_learned` when it waited for its destination to be known here."""
        message = got.message
        if got.session in self._suspended or (got.session in self._held.waiting and self._held.add(got)):
            return
        if isinstance(message, frame.Send):
            self._send(got, self._session(got.session), message, is_learned)
        elif isinstance(message, frame.Part):
            self._part(got, self._session(got.session), message, is_learned)
        elif isinstance(message, frame.Browse):
            self._requests.browse(got.session, self._session(got.session), message)
        elif isinstance(message, frame.ReadFragment):
            self._requests.read_fragment(got.session, self._session(got.session), message)
        elif isinstance(message, frame.Credit):
            self._credit(self._session(got.session), message)
        elif isinstance(message, frame.OpenSession):
            self._open_session(got.session, message)
        elif isinstance(message, frame.Hello):
            self.greeting.hear(message)
        elif isinstance(message, frame.Goodbye):
            self.end(None)
        elif got.session:
            self._requests.request(got.session, self._session(got.session), message)

    def _session(self, number: int) -> Session:
        session = self._sessions.get(number)
        if session is None:
            raise ProtocolError(f"session {number} is not open on this link; open it first", session=number)
        return session

    def carries(self, number: int, session: Session) -> bool:
        """Whether answers to a session still go over this link."""
        return not self.is_lost and self._sessions.get(number) is session

    def _open_session(self, number: int, message: frame.OpenSession) -> None:
        """Resume a session when the channel is replayed, which tells whether it is known; a new one need not wait."""
        target = self._manager.target_of(message)
        if target is None:
            self.say(number, self.failed(message.token, no_such_channel(message.channel, self._manager.managers)))
            return
        if message.resume:
            then = partial(self._open_found, number, message, target)
            self._manager.find_session(message.resume, message.name, target, self, then)
        else:
            self._open_found(number, message, target, None)

    def _open_found(self, number: int, message: frame.OpenSession, target: ManagerLink, found: Session | None) -> None:
        if self.is_lost:
            return
        if number in self._sessions:
            self.end(ProtocolError(f"session number {number} is taken on this link; count up from 1", session=number))
            return
        if len(self._sessions) >= SESSIONS_MAX:
            self.end(ProtocolError(f"a link carries at most {SESSIONS_MAX} sessions; close some, or use another link"))
            return
        session, first_id = self._manager.open_session(message.name, target, found, self, message.is_resumable, message.link)
        self._sessions[number] = session
        self._numbers[session.id] = number
        opened = (session.id, first_id.to_bytes(16, "big"), found is not None, session.channel, target.told_incarnation)
        self.say(number, frame.SessionOpened(message.token, *opened))
        self._manager.flow.tell_again(session.id)
        if self._manager.pressure.is_short:
            self.tell_pressure(self._manager.pressure)

    def _send(self, got: Frame, session: Session, message: frame.Send, is_learned: bool) -> None:
        number = got.session
        self._manager.busy_wait.came(session.id)
        made, payload = command.decode(got.body)
        if not isinstance(made, command.BatchCommand):
            raise ProtocolError(f"a Send frame carries a {type(made).__name__} command instead of a batch")
        if made.origin:
            raise ProtocolError("who waits for a batch is said by the server, not by a client")
        target = self._manager.managers[session.channel]
        session.check_producer(made.producer)
        check_number(made.sequence)
        if not is_learned:
            session.sent()
            if self._held.must_learn(got, session, made.destination):
                return
        try:
            if session.rights is not None:
                check_access(session, "send", made.destination)
            batch.verify(payload)
            check_send(target, made.destination, message.kind)
            if self._held.must_wait(got, session, made.destination):
                return
            if self._manager.flow.is_watching:
                self._manager.flow.check(session, made)
        except HoldfastError as problem:
            session.receipted()
            self.say(number, self.failed(message.token, problem))
            return
        began_s = time.perf_counter() if self._manager.figures.is_timing else 0.0
        tell = self._receipt_later if message.is_patient else self._receipted
        receipted = partial(tell, number, session, message.token, began_s)
        told: OnOutcome = receipted
        if target.messages.is_deduplicating(made.destination):
            made = msgspec.structs.replace(made, origin=target.subject)
            told = partial(target.applied_receipts.durable, receipted)
        target.fair_share.submit(session.id, made, payload, told)

    def _receipt_later(self, *receipted: Any) -> None:
        """Say a receipt in the next turn of the loop: this one delivers."""
        asyncio.get_running_loop().call_soon(self._receipted, *receipted)

    def _receipted(
        self, number: int, session: Session, token: int, began_s: float, outcome: Receipt | HoldfastError,
        repeated: Repeated = (),
    ) -> None:  # fmt: skip
        if self.is_lost or self._sessions.get(number) is not session:  # as `carries`, for every batch
            return
        session.receipted()
        if isinstance(outcome, HoldfastError):
            self._manager.operator_log.send_failed(outcome)
            self.say(number, self.failed(token, outcome))
            return
        if began_s:
            self._manager.figures.sends.observe(time.perf_counter() - began_s)
        receipted = frame.Receipted(token, outcome.entry, outcome.copies, outcome.is_synced, repeated, session.channel)
        if session.unreceipted:
            self.say(number, receipted)
        else:  # no other receipt will come to travel with it
            self._say_now(number, receipted)
            self._manager.busy_wait.receipted(session.id)

    def _part(self, got: Frame, session: Session, message: frame.Part, is_learned: bool) -> None:
        number = got.session
        if not is_learned:
            session.part_sent()

        def told(outcome: Receipt | HoldfastError) -> None:
            if not self.carries(number, session):
                return
            session.part_receipted()
            if isinstance(outcome, HoldfastError):
                self._manager.operator_log.send_failed(outcome)
                self.say(number, self.failed(message.token, outcome))
            else:
                receipt = (outcome.entry, outcome.copies, outcome.is_synced, (), session.channel)
                self.say(number, frame.Receipted(message.token, *receipt))

        must_learn = partial(self._held.must_learn, got, session) if not is_learned else lambda _: False
        take_part(self._manager, session, message, got.body, told, must_learn, partial(self._held.must_wait, got, session))

    def _credit(self, session: Session, message: frame.Credit) -> None:
        if message.events < 0 or message.bytes < 0 or message.withdrawn < 0:
            raise ProtocolError("credit is not negative; withdraw what is not wanted any more, or close the receiver")
        if message.receiver in session.receivers:
            said = (message.events, message.bytes, message.handed, message.withdrawn)
            self._manager.managers[session.channel].tell(CreditGranted(session.id, message.receiver, *said))

    def failed(self, token: int, problem: HoldfastError) -> frame.Failed:
        """Count a refusal, and return the frame that tells it."""
        self._manager.figures.refused(problem.code)
        return frame.Failed.of(token, problem)

    # --- frames out --------------------------------------------------------------------------------------------------

    def say(self, session: int, message: frame.Message, body: frame.Buffer = b"") -> None:
        if self._conversation.state is not State.ENDED:
            self._conversation.say(session, message)
            self._link.send(Frame(session, message, body))
            self._check_reading(message)

    def _say_now(self, session: int, message: frame.Message, body: frame.Buffer = b"") -> None:
        """Say it without waiting for more to send together."""
        if self._conversation.state is not State.ENDED:
            self._conversation.say(session, message)
            self._link.send_now(Frame(session, message, body))
            self._check_reading(message)

    def _check_reading(self, message: frame.Message) -> None:
        if self._link.bytes_waiting > self._manager.settings.link_bytes_max and not isinstance(message, frame.Goodbye):
            self.end(ProtocolError("this client does not read what it asked for; its link is given up, its events are kept"))

    def deliver(self, message: Delivered) -> None:
        number = self._numbers.get(message.session)
        if number is None or (message.session, message.receiver) not in self._attached:
            return  # from before a lost link: the receiver did not say that it holds this, so it is delivered again
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
        """The client reads more slowly than events come: nothing more is delivered to its sessions until the link has drained.
        The receipts and answers of others are not held up, nor is the link given up."""
        target = self._manager.managers[self._sessions[self._numbers[session]].channel]
        target.tell(LinkCongested(session, True))
        if not self._held_up:
            self._draining = supervision.start(self._go_on_when_drained(), f"waiting until {self._link.peer} reads on")
        self._held_up[session] = target

    async def _go_on_when_drained(self) -> None:
        await self._link.drained()
        held_up, self._held_up = self._held_up, {}
        for session, target in sorted(held_up.items()):
            target.tell(LinkCongested(session, False))

    def _deliver(self, number: int, message: Delivered, begin: int, end: int) -> None:
        chosen = message.slices[begin:end]
        slices = [frame.Slice(*each[:4], len(each.batch), *each[5:]) for each in chosen]
        body = chosen[0].batch if len(chosen) == 1 else b"".join(each.batch for each in chosen)
        # A handout is all there is for now: nothing comes to travel with it.
        self._say_now(number, frame.Deliver(message.receiver, slices, message.is_careful, self._sessions[number].channel), body)

    def note_attached(self, session: str, answered: frame.Message) -> None:
        """A request was answered: deliveries are for receivers that have attached over this link."""
        if isinstance(answered, frame.Attach):
            self._attached.add((session, answered.receiver))
        elif isinstance(answered, frame.DetachReceiver):
            self._attached.discard((session, answered.receiver))

    def receiver_gone(self, message: ReceiverGone) -> None:
        number = self._numbers.get(message.session)
        self._attached.discard((message.session, message.receiver))
        if number is not None:
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
        tick = self._conversation.tick(self._manager.clock.steady_ms() / 1000)
        if tick.is_dead:
            self.end(ProtocolError("nothing was heard on this link for three heartbeats; it is given up"))
            return
        for message in tick.to_say:
            self.say(0, self._with_time(message))
        self._timer = self._manager.clock.call_later(round(tick.again_in_s * 1000), self._tick)

    def _with_time(self, heartbeat: frame.Message) -> frame.Message:
        return msgspec.structs.replace(heartbeat, now_ms=self._manager.now_ms())

    def suspend(self, session: str) -> None:
        """Have the client resume a session. What it says to it before it hears that is dropped."""
        self._suspended.add(self._numbers[session])
        self.say(self._numbers[session], frame.SessionSuspended())
        self.drop_session(session)

    def drop_session(self, session: str) -> None:
        """Carry a session no longer: it goes on over another link, or is closed."""
        number = self._numbers.pop(session, None)
        if number is not None:
            del self._sessions[number]
            self._attached = {each for each in self._attached if each[0] != session}

    @property
    def is_ended(self) -> bool:
        """Nothing more is heard or said."""
        return self.is_lost or self._conversation.state is State.ENDED

    def end(self, problem: HoldfastError | None) -> None:
        """Say goodbye, with the reason, and close."""
        if problem is not None:
            self._manager.refused(self._link.peer, problem)
        self.say(0, farewell(problem))
        self._link.close()

    def _lost(self, problem: Exception | None) -> None:
        self.is_lost = True
        self._requests.stop()
        self.greeting.stop()
        for task in self._parsing:
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._manager.link_lost(self, list(self._sessions.values()))
