"""The client manager: owns sessions. It checks who may do what, appends commands to the channel, and passes answers and
deliveries back.

    client ⇄ link ⇄ ClientLink (one a link) ─▶ ClientManager ─▶ channel      commands, which must not be lost
                                                     ⇅
                                                    bus ⇄ message manager    deliveries, answers, credit

It keeps no critical state: sessions and receivers are commands in the channel, unreceipted batches are in the client. Everything
it holds can be lost with it, and the clients go on at another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from holdfast.access.users import Users
from holdfast.bus.bus import Bus, message_manager_subject
from holdfast.bus.message import (
    Delivered,
    LinkDown,
    NoLongerHeld,
    Question,
    ReceiverGone,
    Reply,
    SessionGone,
    Watermark,
    WatermarksAsked,
)
from holdfast.channel.channel import Channel, Pressure, Purpose, Receipt
from holdfast.destination import command
from holdfast.destination.settings import of_first_use
from holdfast.errors import HoldfastError, by_code
from holdfast.event import identifier
from holdfast.event.position import Ranges
from holdfast.node.administration.arguments import Arguments
from holdfast.node.clients.assembly_requests import BegunStages
from holdfast.node.clients.busy_wait import BusyWait
from holdfast.node.clients.client_flow import AppliedReceipts, ClientFlow
from holdfast.node.clients.client_link import ClientLink
from holdfast.node.clients.destination_checks import Kind
from holdfast.node.clients.fair_share import FairShare
from holdfast.node.clock import Clock
from holdfast.node.figures import Figures
from holdfast.node.identity import Identity
from holdfast.node.login.allowance import Allowances
from holdfast.node.login.login import Login, network_of
from holdfast.node.login.permission import may_receive
from holdfast.node.logs.notices import STRANGERS_INTERVAL_S, Notices, folded
from holdfast.node.logs.operator_log import OperatorLog
from holdfast.node.message_manager_view import MessageManagerView, RememberedSession
from holdfast.node.reading.shared_turn import SharedTurn
from holdfast.node.settings import NodeSettings
from holdfast.session.session import ReceiverPlace, Session, is_passing, owned, owner_of, passing
from holdfast.wire.link import Link

log = logging.getLogger("holdfast.client_manager")

# How often overdue sessions are looked for: a fifth of the grace, so that the grace is kept to within 20 %.
_LOOKS_PER_GRACE = 5


class Waiting(NamedTuple):
    """Functions that take the answer to a command or question."""

    answered: Callable[[Any], None]
    failed: Callable[[HoldfastError], None]


class ClientManager:
    def __init__(
        self,
        messages: MessageManagerView,
        channel: Channel,
        bus: Bus,
        identity: Identity,
        clock: Clock,
        settings: NodeSettings,
        turn: SharedTurn,
        operator_log: OperatorLog,
        figures: Figures,
    ) -> None:
        """`turn` is shared with all of this process that read many heads, or parse selectors."""
        self.settings = settings
        self.channel = channel
        self.messages = messages
        self.turn = turn
        self.operator_log = operator_log
        self.figures = figures
        self.bus = bus
        self.login: Login | None = None  # without users, every client is welcome
        self.local = ""  # the name of the server's local socket
        self.programs: list[dict[str, Any]] = []  # that run beside the server, for its status
        # The subject is new at every start, so that an answer meant for a former life reaches nobody.
        self.subject = f"client_manager.{identifier.to_text(identity.take())}"
        self._messages_subject = message_manager_subject(messages.name)
        self.sessions: dict[str, Session] = {}
        self.links: dict[str, ClientLink] = {}
        self.allowances = Allowances(settings, messages)
        self.begun_stages = BegunStages(messages)
        # Positions that receivers that attach again hold no longer, until their Attach is answered.
        self._lost: dict[tuple[str, int], Ranges] = {}
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
        self.fair_share = FairShare(channel, clock, messages.wait_for_selectors)
        self.busy_wait = BusyWait(settings.vigil_us / 1_000_000)
        self.flow = ClientFlow(bus, self._tell_watermark)
        self._strangers = Notices(STRANGERS_INTERVAL_S)
        self.applied_receipts = AppliedReceipts(messages.apply_now)
        self.tell_messages(WatermarksAsked(self.subject))
        channel.watch_pressure(self._tell_pressure)

    # --- links and sessions ------------------------------------------------------------------------------------------

    def accept(self, link: Link) -> None:
        """Take the link of a client that has connected."""
        self._open.add(ClientLink(link, self))

    def refused(self, peer: str, problem: HoldfastError) -> None:
        """Count that a link ends, and log why: one line a second, at most, for each address."""
        self.figures.refused(problem.code)
        self._strangers.say(log, logging.INFO, network_of(peer), folded(f"link from {peer} ends: {problem}"))

    @property
    def open_links(self) -> int:
        return len(self._open)

    def find_session(self, id: str, name: str, link: ClientLink, found: Callable[[Session | None], None]) -> None:
        """Tell, when the channel is replayed, the session to be resumed; None when it is not known any more.

        The session of another user is not known: to have learned its id does not help. Neither is one from before the channel
        was restored: what it holds, and what it was told, may be of the future that was lost.
        """

        def recalled(remembered: RememberedSession | None) -> None:
            if owner_of(id) != link.greeting.user_name or is_passing(id) or not self._identity.may_have_given(id):
                found(None)
            else:
                found(self.sessions.get(id) or self._restored(id, name, remembered))

        self.messages.recall_session(id, recalled)

    def open_session(self, name: str, known: Session | None, link: ClientLink, is_resumable: bool = True) -> tuple[Session, int]:
        """A new session, or the one that is known, on this link; and the first id for its events."""
        first_id = self._identity.take_start()
        id = identifier.to_text(first_id) if is_resumable else passing(identifier.to_text(first_id))
        session = known or Session(owned(id, link.greeting.user_name), name, self.settings.window)
        session.rights = link.greeting.rights
        session.on_denied = self.operator_log.denied
        session.client = link.greeting.client_of_user
        if known is not None:
            self._let_go_of_denied(session)
        former = self.links.get(session.id)
        if former is not None:
            former.drop_session(session.id)
            self.fair_share.drop(session.id)
            self.tell_messages(LinkDown(session.id))
        session.came_back()
        self.sessions[session.id] = session
        self.links[session.id] = link
        return session, first_id

    def _let_go_of_denied(self, session: Session) -> None:
        """End receivers that the rules, which may have changed while the session had no link, do not allow any more."""
        for receiver in [number for number, place in session.receivers.items() if not may_receive(session, place)]:
            self.let_go(session, receiver)

    def let_go(self, session: Session, receiver: int) -> None:
        """End a receiver that the rules do not allow any more: its events go to others."""
        place = session.receivers.pop(receiver)
        self.append(command.Detach(session.id, receiver, self.now_ms(), 0))
        self.drop_own_subscription(place)

    def drop_own_subscription(self, place: ReceiverPlace) -> None:
        if place.subscription.startswith("_"):  # a non-durable one was made for this receiver alone
            self.append(command.Unsubscribe(place.destination, place.subscription))

    def _restored(self, id: str, name: str, remembered: RememberedSession | None) -> Session | None:
        """A session from before a restart, unless it is being given up."""
        if remembered is None or id in self._given_up or id.startswith("_"):  # the node's own is nobody else's
            return None
        session = Session(id, name, self.settings.window)
        session.receivers = {number: ReceiverPlace(*key) for number, key in remembered.receivers.items()}
        session.producers = dict.fromkeys(remembered.producers, True)
        return session

    def new_producer(self, user: str) -> str:
        return owned(identifier.to_text(self._identity.take()), user)

    def use_users(self, users: Users) -> None:
        """Use these users from now on. Links whose user or rules have changed end, and their clients link again."""
        assert self.login is not None
        self.login.users = users
        for link in list(self._open):
            link.greeting.users_changed(users)

    def link_lost(self, link: ClientLink, sessions: list[Session]) -> None:
        self._open.discard(link)
        for session in sessions:
            if self.links.get(session.id) is link:
                del self.links[session.id]
                session.went_away(self.clock.steady_ms())
                self.fair_share.drop(session.id)
                self.tell_messages(LinkDown(session.id))
                if is_passing(session.id):
                    self.forget_session(session)
                    self._give_up(session.id)

    def forget_session(self, session: Session) -> None:
        self.sessions.pop(session.id, None)
        self.fair_share.drop(session.id)
        self.flow.forget(session.id)
        link = self.links.pop(session.id, None)
        if link is not None:
            link.drop_session(session.id)

    def _look_for_overdue(self) -> None:
        """Give up sessions that did not come back in time: the events they hold go to others."""
        now = self.clock.steady_ms()
        for session in [each for each in self.sessions.values() if each.is_overdue(now, self.settings.session_grace_ms)]:
            self.forget_session(session)
            self._give_up(session.id)
        self.messages.list_sessions(self._given_up.intersection_update)
        self._timer = self.clock.call_later(self.settings.session_grace_ms // _LOOKS_PER_GRACE, self._look_for_overdue)

    def give_up_unclaimed(self) -> None:
        """Give up sessions of a former life that did not resume."""
        self.messages.list_sessions(
            lambda known: self._give_up_all(each for each in known if each not in self._given_up and not each.startswith("_"))
        )

    def give_up_passing(self) -> None:
        """Give up sessions of a former life that end with their links: they ended with it."""
        self.messages.list_sessions(lambda known: self._give_up_all(each for each in known if is_passing(each)))

    def _give_up_all(self, sessions: Iterable[str]) -> None:
        for session in [each for each in sessions if each not in self.sessions]:
            self._give_up(session)

    def _give_up(self, session: str) -> None:
        """A session that is given up cannot be resumed any more, although it is gone only when its Detach is applied."""
        self._given_up.add(session)
        self.tell_messages(SessionGone(session))

    # --- destinations ------------------------------------------------------------------------------------------------

    def being_created(self, destination: str) -> Kind | None:
        return self._created.get(destination)

    def create_on_first_use(self, destination: str, kind: Kind) -> None:
        """Append a Create command ("if it is not there"), ahead of the batch or Attach that is about to be appended."""
        self._created[destination] = kind

        def done(_: object) -> None:
            self._created.pop(destination, None)

        self.next_token(done, done)
        settings, whose = of_first_use(kind), (self.subject, self._token)
        create = command.Create(destination, kind, settings, True, *whose, is_unconfigured=True)
        self.submit(create, self._token)

    # --- questions and answers ---------------------------------------------------------------------------------------

    def next_token(self, answered: Callable[[Any], None], failed: Callable[[HoldfastError], None]) -> int:
        """Return a token for a command or question whose answer will come over the bus."""
        self._token += 1
        self._waiting[self._token] = Waiting(answered, failed)
        return self._token

    def take_lost(self, session: str, receiver: int) -> Ranges | None:
        """Take the positions that a receiver said it holds when it attached, and that are finished or with others."""
        return self._lost.pop((session, receiver), None)

    def now_ms(self) -> int:
        return self.clock.now_ms()

    def tell_messages(self, message: object) -> None:
        self.bus.publish(self._messages_subject, message)

    def hand_over_to_messages(self, message: object) -> None:
        """Tell it at once, where that overtakes nothing, instead of at the next turn of the bus."""
        self.bus.hand_over(self._messages_subject, message)

    def append(self, made: command.Command) -> asyncio.Future[Receipt]:
        """Append a command whose answer nobody waits for. If it fails, the command that follows it fails too, and says why."""
        future = self.channel.append(command.encode(made), Purpose.UPKEEP)
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        return future

    def submit(self, made: command.Command, token: int, payload: bytes = b"") -> None:
        """Append a command that is answered when it is applied; if it cannot be appended, it is answered now."""
        try:
            future = self.channel.append(command.encode(made, payload), Purpose.UPKEEP)
        except HoldfastError as problem:
            self._not_appended(token, problem)
            return
        future.add_done_callback(partial(self._appended, token))

    def _appended(self, token: int, done: asyncio.Future[Receipt]) -> None:
        self.messages.apply_now()
        if not done.cancelled() and (problem := done.exception()) is not None:
            self._not_appended(token, problem)

    def _not_appended(self, token: int, problem: BaseException) -> None:
        waiting = self._waiting.pop(token, None)
        if waiting is not None and isinstance(problem, HoldfastError):
            waiting.failed(problem)

    def ask(self, action: str, asked: Arguments, token: int) -> None:
        self.tell_messages(Question(self.subject, token, action, asked))

    def _hear(self, message: object) -> None:
        if isinstance(message, Delivered):
            link = self.links.get(message.session)
            if link is not None:
                link.deliver(message)
        elif isinstance(message, Reply) and not message.token:  # about a batch, which has no token
            self.applied_receipts.applied(*message.value)
        elif isinstance(message, Reply):
            waiting = self._waiting.pop(message.token, None)
            if waiting is None:
                return
            if message.error is not None:
                waiting.failed(message.error)
            else:
                waiting.answered(message.value)
        elif isinstance(message, NoLongerHeld):
            self._lost[message.session, message.receiver] = message.lost
        elif isinstance(message, ReceiverGone):
            link, session = self.links.get(message.session), self.sessions.get(message.session)
            if session is not None:
                session.close_receiver(message.receiver, by_code(message.code, message.sentence, {}))
            if link is not None:
                link.receiver_gone(message)
        elif isinstance(message, Watermark):
            self.flow.hear(message)

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
        self.flow.stop()
        self._strangers.stop()
        if self.login is not None:
            self.login.close()
        for link in list(self._open):
            link.end(None)
