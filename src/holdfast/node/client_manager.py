"""The client manager: owns sessions. It checks who may do what, appends commands to the channel, and hands answers and
deliveries back.

    client ⇄ link ⇄ ClientLink (one a link) ─▶ ClientManager ─▶ channel      what must not be lost
                                                     ⇅
                                                    bus ⇄ message manager    deliveries, answers, credit

It keeps no critical state: sessions and receivers are commands in the channel, unreceipted batches are in the client. What it
holds can be lost with it, and the clients go on at another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from holdfast.access.users import Users
from holdfast.bus.bus import Bus
from holdfast.bus.message import Delivered, LinkDown, Question, ReceiverGone, Reply, SessionGone, Watermark, WatermarksAsked
from holdfast.channel.channel import Channel, Pressure, Purpose, Receipt
from holdfast.destination import command
from holdfast.errors import HoldfastError
from holdfast.event import identifier
from holdfast.node.client_link import ClientLink
from holdfast.node.clock import Clock
from holdfast.node.identity import Identity
from holdfast.node.login import Login
from holdfast.node.message_manager import MessageManager, subject_of
from holdfast.node.sending import Sending
from holdfast.node.settings import NodeSettings
from holdfast.node.turns import Turns
from holdfast.node.vigil import Vigil
from holdfast.session.session import ReceiverPlace, Session, is_passing, owned, owner_of, passing
from holdfast.wire.link import Link

log = logging.getLogger("holdfast.client_manager")

Kind = Literal["queue", "topic"]

# How often sessions whose grace is over are looked for; a fifth of the grace, so that it is kept to within 20 %.
_LOOKS_PER_GRACE = 5


class Waiting(NamedTuple):
    """Who waits for the answer to a command or question."""

    answered: Callable[[Any], None]
    failed: Callable[[HoldfastError], None]


class ClientManager:
    def __init__(
        self, messages: MessageManager, channel: Channel, bus: Bus, identity: Identity, clock: Clock, settings: NodeSettings
    ) -> None:
        self.settings = settings
        self.channel = channel
        self.messages = messages
        self.bus = bus
        self.login: Login | None = None  # without users, whoever connects is welcome
        # The subject is new at every start, so that an answer meant for a former life reaches nobody.
        self.subject = f"client_manager.{identifier.to_text(identity.take())}"
        self.sessions: dict[str, Session] = {}
        self.links: dict[str, ClientLink] = {}
        # Stages whose first part is on its way: (whose, name).
        self.stages_begun: set[tuple[str, str]] = set()
        # Destinations created on first use whose command is not applied yet.
        self._created: dict[str, Kind] = {}
        self._open: set[ClientLink] = set()
        self._given_up: set[str] = set()
        self._identity = identity
        self.clock = clock
        self._token = 0
        self._waiting: dict[int, Waiting] = {}
        self._stop_listening = bus.listen(self.subject, self._hear)
        self._timer = clock.call_later(settings.session_grace_ms // _LOOKS_PER_GRACE, self._look_for_overdue)
        self.turns = Turns(channel, clock)
        self.vigil = Vigil(settings.vigil_us / 1_000_000)
        self.sending = Sending(bus, self._tell_watermark)
        self.tell_messages(WatermarksAsked(self.subject))
        channel.watch_pressure(self._tell_pressure)

    # --- links and sessions ------------------------------------------------------------------------------------------

    def accept(self, link: Link) -> None:
        """A client has connected."""
        self._open.add(ClientLink(link, self))

    @property
    def open_links(self) -> int:
        return len(self._open)

    def open_session(self, name: str, resume: str, link: ClientLink, is_resumable: bool = True) -> tuple[Session, int, bool]:
        """A new session, or the one to be resumed if it is still known: (session, first id for its events, is resumed).

        The session of another user is not known: to have learned its id does not help.
        """
        may_resume = owner_of(resume) == link.greeting.user_name and not is_passing(resume)
        known = (self.sessions.get(resume) or self._remembered(resume, name)) if may_resume else None
        first_id = self._identity.take_start()
        id = identifier.to_text(first_id) if is_resumable else passing(identifier.to_text(first_id))
        session = known or Session(owned(id, link.greeting.user_name), name, self.settings.window)
        session.rights = link.greeting.rights
        session.client = link.greeting.client
        former = self.links.get(session.id)
        if former is not None:
            former.drop_session(session.id)
            self.turns.drop(session.id)
            self.tell_messages(LinkDown(session.id))
        session.came_back()
        self.sessions[session.id] = session
        self.links[session.id] = link
        return session, first_id, known is not None

    def _remembered(self, id: str, name: str) -> Session | None:
        """A session from before a restart: the channel remembers it, unless it is being given up."""
        found = self.messages.directory.sessions().get(id)
        if found is None or id in self._given_up or id.startswith("_"):  # the node's own is nobody else's
            return None
        session = Session(id, name, self.settings.window)
        session.receivers = {number: ReceiverPlace(*key) for number, key in found.receivers.items()}
        session.producers = dict.fromkeys(found.producers, False)
        return session

    def new_producer(self, user: str) -> str:
        return owned(identifier.to_text(self._identity.take()), user)

    def use_users(self, users: Users) -> None:
        """Ask these from now on; links whose user or rules have changed begin anew."""
        assert self.login is not None
        self.login.users = users
        for link in list(self._open):
            link.greeting.users_changed(users)

    def link_lost(self, link: ClientLink, sessions: list[Session]) -> None:
        self._open.discard(link)
        for session in sessions:
            if self.links.get(session.id) is link:
                del self.links[session.id]
                session.went_away(self.clock.now_ms())
                self.turns.drop(session.id)
                self.tell_messages(LinkDown(session.id))
                if is_passing(session.id):
                    self.forget_session(session)
                    self._give_up(session.id)

    def forget_session(self, session: Session) -> None:
        self.sessions.pop(session.id, None)
        self.sending.forget(session.id)
        self.turns.forget(session.id)
        link = self.links.pop(session.id, None)
        if link is not None:
            link.drop_session(session.id)

    def _look_for_overdue(self) -> None:
        """Give up on sessions that did not come back: what they hold goes to others."""
        now = self.clock.now_ms()
        for session in [each for each in self.sessions.values() if each.is_overdue(now, self.settings.session_grace_ms)]:
            self.forget_session(session)
            self._give_up(session.id)
        self._given_up &= self.messages.directory.sessions().keys()
        self._timer = self.clock.call_later(self.settings.session_grace_ms // _LOOKS_PER_GRACE, self._look_for_overdue)

    def give_up_unclaimed(self) -> None:
        """Sessions of a former life that did not resume are given up on."""
        for session in self.messages.directory.sessions():
            if session not in self.sessions and session not in self._given_up and not session.startswith("_"):
                self._give_up(session)

    def give_up_passing(self) -> None:
        """Sessions of a former life that end with their links ended with it."""
        for session in self.messages.directory.sessions():
            if is_passing(session) and session not in self.sessions:
                self._give_up(session)

    def _give_up(self, session: str) -> None:
        """From here on it cannot be resumed, although it is gone only when its Detach is applied."""
        self._given_up.add(session)
        self.tell_messages(SessionGone(session))

    # --- destinations ------------------------------------------------------------------------------------------------

    def being_created(self, destination: str) -> Kind | None:
        return self._created.get(destination)

    def create_on_first_use(self, destination: str, kind: Kind) -> None:
        """Put "create it if it is not there" into the channel, ahead of what is about to be appended."""
        self._created[destination] = kind

        def done(_: object) -> None:
            self._created.pop(destination, None)

        self.next_token(done, done)
        create = command.Create(destination, kind, is_implicit=True, origin=self.subject, token=self._token)
        self.submit(create, self._token)

    # --- questions and answers ---------------------------------------------------------------------------------------

    def next_token(self, answered: Callable[[Any], None], failed: Callable[[HoldfastError], None]) -> int:
        """A token for a command or question whose answer will come over the bus."""
        self._token += 1
        self._waiting[self._token] = Waiting(answered, failed)
        return self._token

    def now_ms(self) -> int:
        return self.clock.now_ms()

    def tell_messages(self, message: object) -> None:
        self.bus.publish(subject_of(self.messages.name), message)

    def append(self, made: command.Command) -> asyncio.Future[Receipt]:
        """Append a command nobody waits for; if it fails, what follows it fails too and says why."""
        future = self.channel.append(command.encode(made), Purpose.UPKEEP)
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        return future

    def submit(self, made: command.Command, token: int, payload: bytes = b"") -> None:
        """Append a command that is answered when it is applied; if it cannot be appended, it is answered now."""
        try:
            future = self.channel.append(command.encode(made, payload), Purpose.UPKEEP)
        except HoldfastError as problem:
            self._appended(token, problem)
            return
        future.add_done_callback(lambda done: self._appended(token, None if done.cancelled() else done.exception()))

    def _appended(self, token: int, problem: BaseException | None) -> None:
        self.messages.hurry()
        waiting = self._waiting.pop(token, None) if problem is not None else None
        if waiting is not None and isinstance(problem, HoldfastError):
            waiting.failed(problem)

    def ask(self, action: str, arguments: dict[str, Any], token: int) -> None:
        self.tell_messages(Question(self.subject, token, action, arguments))

    def _hear(self, message: object) -> None:
        if isinstance(message, Delivered):
            link = self.links.get(message.session)
            if link is not None:
                link.deliver(message)
        elif isinstance(message, Reply):
            waiting = self._waiting.pop(message.token, None)
            if waiting is None:
                return
            if message.error is not None:
                waiting.failed(message.error)
            else:
                waiting.answered(message.value)
        elif isinstance(message, ReceiverGone):
            link = self.links.get(message.session)
            if link is not None:
                link.receiver_gone(message)
        elif isinstance(message, Watermark):
            self.sending.hear(message)

    def _tell_watermark(self, session: str, level: Watermark) -> None:
        link = self.links.get(session)
        if link is not None:
            link.tell_watermark(session, level)

    def _tell_pressure(self, pressure: Pressure) -> None:
        for link in self._open:
            link.tell_pressure(pressure)

    async def stop(self) -> None:
        """Say goodbye to every client; their sessions can be resumed."""
        self._timer.cancel()
        self._stop_listening()
        self.sending.stop()
        if self.login is not None:
            self.login.close()
        for link in list(self._open):
            link.end(None)
