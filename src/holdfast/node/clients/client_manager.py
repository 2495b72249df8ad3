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
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from holdfast.access.users import Users
from holdfast.bus.bus import Bus, client_manager_subject
from holdfast.bus.message import (
    Delivered,
    LinkDown,
    LinkMade,
    NoLongerHeld,
    ReceiverGone,
    Reply,
    Watermark,
    WatermarksTold,
)
from holdfast.channel.channel import Appendable, Pressure
from holdfast.cluster.places import Places
from holdfast.destination import command
from holdfast.errors import Detached, HoldfastError, by_code
from holdfast.event import identifier
from holdfast.node import supervision
from holdfast.node.administration.cluster_arguments import ClusterConfigure, ClusterOrder
from holdfast.node.busy_wait import BusyWait
from holdfast.node.clients.client_flow import ClientFlow
from holdfast.node.clients.client_link import ClientLink
from holdfast.node.clients.joint.joint_commits import JointCommits
from holdfast.node.clients.manager_link import ManagerLink
from holdfast.node.clients.unclaimed_sessions import UnclaimedSessions
from holdfast.node.clock import Clock
from holdfast.node.figures import Figures
from holdfast.node.identity import Identity
from holdfast.node.login.login import Login, network_of
from holdfast.node.login.permission import may_receive
from holdfast.node.logs.log_line import LogLine
from holdfast.node.logs.notices import STRANGERS_INTERVAL_S, Notices, folded
from holdfast.node.logs.operator_log import OperatorLog
from holdfast.node.message_manager_view import MessageManagerView, RememberedSession
from holdfast.node.reading.shared_turn import SharedTurn
from holdfast.node.settings import NodeSettings
from holdfast.session.session import ReceiverPlace, Session, is_passing, owned, owner_of, passing
from holdfast.wire import frame
from holdfast.wire.link import Link

log = logging.getLogger("holdfast.client_manager")

# Why the receivers of a client end whose session another one resumed.
TAKEN = "another client goes on with this session, and has what was held; discard unconfirmed work"


class ClientManager:
    def __init__(
        self,
        managers: Sequence[tuple[str, MessageManagerView, Appendable]],
        places: Places | None,
        bus: Bus,
        identity: Identity,
        clock: Clock,
        settings: NodeSettings,
        turn: SharedTurn,
        operator_log: OperatorLog,
        figures: Figures,
        start: str = "",
    ) -> None:
        """`managers`: the name in positions, the view and the channel of each. `places`: where each
        destination is; None with one message manager alone. `turn` is shared with all of this process that read many heads, or
        parse selectors. `start` names this start, where the bus has given it a name."""
        self.settings = settings
        self.places = places
        self.turn = turn
        self.operator_log = operator_log
        self.figures = figures
        self.bus = bus
        self.login: Login | None = None  # without users, every client is welcome
        self.local = ""  # the name of the server's local socket
        self.is_drained = False  # no client is welcome
        self.listen: Callable[[bool], Awaitable[None]] | None = None  # take links, or none, where a listener brings them
        self.programs: list[dict[str, Any]] = []  # that run beside the server, for its status
        self.tell_cluster: Callable[[], dict[str, Any]] | None = None  # the state of the cluster; None for a server alone
        self.order_cluster: Callable[[ClusterOrder], Awaitable[Any]] | None = None  # carries out what an operator asks of it
        self.configure_cluster: Callable[[ClusterConfigure], Awaitable[Any]] | None = None  # shows and changes what it shares
        # Lines of a program's log, for the topic `_LOG`: whether somebody subscribes to it.
        self.take_log: Callable[[str, Sequence[LogLine]], bool] = lambda program, lines: False
        self.sessions: dict[str, Session] = {}
        self.links: dict[str, ClientLink] = {}
        self.open: set[ClientLink] = set()  # all that have connected
        self._spared: set[ClientLink] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._identity = identity
        self._start = start
        self.clock = clock
        self.busy_wait = BusyWait(settings.vigil_us / 1_000_000)
        self.flow = ClientFlow(bus, self._tell_watermark)
        self._strangers = Notices(STRANGERS_INTERVAL_S)
        # The subject is new at every start, so that an answer meant for a former life reaches nobody.
        own = client_manager_subject(start or identifier.to_text(identity.take()))
        self.managers: dict[str, ManagerLink] = {}
        self._stop_listening: list[Callable[[], None]] = []
        for name, messages, channel in managers:
            subject = f"{own}.{name}" if name else own
            shared = (bus, subject, clock, settings, places, start)
            target = self.managers[name] = ManagerLink(name, messages, channel, *shared)
            self._stop_listening.append(bus.listen(subject, partial(self._hear, target)))
            channel.watch_pressure(self._tell_pressure)
        self._opened = 0  # sessions that said no channel
        self.joint = JointCommits(self.managers, bus, clock)
        self.unclaimed = UnclaimedSessions(self, start)

    # --- links and sessions ------------------------------------------------------------------------------------------

    def accept(self, link: Link) -> None:
        """Take the link of a client that has connected."""
        self.open.add(ClientLink(link, self))

    def refused(self, peer: str, problem: HoldfastError) -> None:
        """Count that a link ends, and log why: one line a second, at most, for each address."""
        self.figures.refused(problem.code)
        self._strangers.say(log, logging.INFO, network_of(peer), folded(f"link from {peer} ends: {problem}"))

    @property
    def incarnation(self) -> str:
        """Of all its channels: if one of them is another one than before, no session can be resumed."""
        return "+".join(target.channel.id for target in self.managers.values())

    @property
    def is_clustered(self) -> bool:
        """Sessions may be at other client managers."""
        return bool(self._start)

    @property
    def open_links(self) -> int:
        return len(self.open)

    def target_of(self, message: frame.OpenSession) -> ManagerLink | None:
        """The message manager of a session that is opened. One that says no channel is at home at any whose state is known, in
        turn: so a new client needs none in particular, and what it makes for itself is spread."""
        if message.channel or len(self.managers) == 1:
            return self.managers.get(message.channel)
        known = [each for each in self.managers.values() if each.messages.is_primary] or list(self.managers.values())
        self._opened += 1
        return known[self._opened % len(known)]

    def find_session(
        self, id: str, name: str, target: ManagerLink, link: ClientLink, found: Callable[[Session | None], None]
    ) -> None:  # fmt: skip
        """Tell, when the channel is replayed, the session to be resumed; None when it is not known any more.

        The session of another user is not known: to have learned its id does not help. Neither is one from before the channel
        was restored: what it holds, and what it was told, may be of the future that was lost. Nor one in which another process
        goes on by now (`client.session(resume=…)`).
        """

        def recalled(remembered: RememberedSession | None) -> None:
            if owner_of(id) != link.greeting.user_name or is_passing(id) or not self._identity.may_have_given(id):
                found(None)
            else:
                known = self._known(id, target, remembered)
                if known is not None and known.is_lost_to(link.greeting.client_of_user):
                    found(None)
                    return
                is_here = known is not None and known.channel == target.name
                found(known if is_here else self._restored(id, name, target, remembered))

        target.messages.recall_session(id, recalled)

    def _known(self, id: str, target: ManagerLink, remembered: RememberedSession | None) -> Session | None:
        """The session as this client manager knows it. One that was elsewhere meanwhile is forgotten: the channel knows more."""
        known = self.sessions.get(id)
        if remembered is not None and remembered.client_manager not in ("", self._start):
            target.given_up.discard(id)
            if known is not None and known.away_since_ms is not None:
                self.forget_session(known)
        return self.sessions.get(id)

    def open_session(
        self,
        name: str,
        target: ManagerLink,
        known: Session | None,
        link: ClientLink,
        is_resumable: bool = True,
        link_number: int = 0,
    ) -> tuple[Session, int]:
        """A new session, or the one that is known, on this link, which is the client's so many-th; and the first id for its
        events."""
        first_id = self._identity.take_start()
        id = identifier.to_text(first_id) if is_resumable else passing(identifier.to_text(first_id))
        session = known or Session(owned(id, link.greeting.user_name), name, self.settings.window, target.name)
        session.rights = link.greeting.rights
        session.on_denied = self.operator_log.denied
        session.go_on_for(link.greeting.client_of_user)
        if known is not None:
            self._let_go_of_denied(session)
        former = self.links.get(session.id)
        if former is not None:
            if former.greeting.client != link.greeting.client:  # it may wait for events, and is told that none come
                for receiver in session.receivers:
                    former.receiver_gone(ReceiverGone(session.id, receiver, Detached.code, TAKEN))
            former.drop_session(session.id)
            target.fair_share.drop(session.id)
            target.tell(LinkDown(session.id, self._start))
        session.came_back()
        if self._start:  # in a cluster its primary gives it up when this client manager is gone
            target.append(command.Introduce(session.id, self._start, max(1, link_number)))
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
        self.managers[session.channel].append(command.Detach(session.id, receiver, self.now_ms(), 0))
        self.drop_own_subscription(session, place)

    def drop_own_subscription(self, session: Session, place: ReceiverPlace) -> None:
        if place.subscription.startswith("_"):  # a non-durable one was made for this receiver alone
            self.managers[session.channel].append(command.Unsubscribe(place.destination, place.subscription))

    def _restored(self, id: str, name: str, target: ManagerLink, remembered: RememberedSession | None) -> Session | None:
        """A session from before a restart, unless it is being given up."""
        if remembered is None or id in target.given_up or id.startswith("_"):  # the node's own is nobody else's
            return None
        session = Session(id, name, self.settings.window, target.name)
        session.receivers = {number: ReceiverPlace(*key) for number, key in remembered.receivers.items()}
        session.producers = dict.fromkeys(remembered.producers, True)
        return session

    def new_producer(self, user: str) -> str:
        return owned(identifier.to_text(self._identity.take()), user)

    def use_users(self, users: Users) -> None:
        """Use these users from now on. Links whose user or rules have changed end, and their clients link again; so do links
        without a user, if there were no users before."""
        if self.login is None:
            self.login = Login(users)
        self.login.users = users
        for link in self.open - self._spared:
            link.greeting.users_changed(users)

    def spare(self, session: str) -> Callable[[], None]:
        """Let the link of a session go on when users change, until the returned function is called: it has asked for that, and
        waits for the answer."""
        link = self.links.get(session)
        if link is None:
            return lambda: None
        self._spared.add(link)

        def judge() -> None:
            self._spared.discard(link)
            if self.login is not None and link in self.open:
                link.greeting.users_changed(self.login.users)

        return judge

    def use_settings(self, settings: NodeSettings) -> None:
        """Use these settings from now on: those of a cluster were changed."""
        self.settings = settings
        for target in self.managers.values():
            target.use_settings(settings)

    def link_lost(self, link: ClientLink, sessions: list[Session]) -> None:
        self.open.discard(link)
        for session in sessions:
            if self.links.get(session.id) is link:
                self._left(session)

    def suspend_sessions(self, channel: str) -> None:
        """Another primary has this channel: it learns what receivers hold, and may be sent, from clients that resume sessions. So
        do receipts come that waited for an answer. A session without either goes on."""
        for session in [
            each for each in self.sessions.values() if each.channel == channel and (each.receivers or each.unreceipted)
        ]:
            link = self.links.get(session.id)
            if link is not None:
                link.suspend(session.id)
                self._left(session)

    def _left(self, session: Session) -> None:
        """No link carries this session any more: its client resumes it in time, unless it was to end with its link."""
        del self.links[session.id]
        session.went_away(self.clock.steady_ms())
        target = self.managers[session.channel]
        target.fair_share.drop(session.id)
        target.tell(LinkDown(session.id, self._start))
        if is_passing(session.id):
            self.forget_session(session)
            self.unclaimed.give_up(target, session.id)

    def forget_session(self, session: Session) -> None:
        self.sessions.pop(session.id, None)
        self.managers[session.channel].fair_share.drop(session.id)
        self.flow.forget(session.id)
        link = self.links.pop(session.id, None)
        if link is not None:
            link.drop_session(session.id)

    # --- from message managers ---------------------------------------------------------------------------------------

    def _hear(self, target: ManagerLink, message: object) -> None:
        if isinstance(message, Delivered):
            link = self.links.get(message.session)
            if link is not None:
                link.deliver(message)
        elif isinstance(message, Reply):
            target.replied(message)
        elif isinstance(message, NoLongerHeld):
            target.note_lost(*message)
        elif isinstance(message, ReceiverGone):
            link, session = self.links.get(message.session), self.sessions.get(message.session)
            if session is not None:
                session.close_receiver(message.receiver, by_code(message.code, message.sentence, {}))
            if link is not None:
                link.receiver_gone(message)
        elif isinstance(message, WatermarksTold):
            self.flow.hear_all(message)
        elif isinstance(message, LinkMade):
            target.link_made()
            self.suspend_sessions(target.name)

    def now_ms(self) -> int:
        return self.clock.now_ms()

    def _tell_watermark(self, session: str, level: Watermark) -> None:
        link = self.links.get(session)
        if link is not None:
            link.tell_watermark(session, level)

    @property
    def pressure(self) -> Pressure:
        """That of the channel that is short of room; where several are, or none is, of the first."""
        every = [target.channel.pressure for target in self.managers.values()]
        return next((each for each in every if each.is_short), every[0])

    def _tell_pressure(self, _: Pressure) -> None:
        pressure = self.pressure
        for link in self.open:
            link.tell_pressure(pressure)

    def spawn(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """Begin work that answers a client by itself."""
        task = supervision.start(work, what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Say goodbye to every client; their sessions can be resumed."""
        for task in self._tasks:
            task.cancel()
        self.unclaimed.stop()
        for stop in self._stop_listening:
            stop()
        self.flow.stop()
        self.joint.stop()
        self._strangers.stop()
        if self.login is not None:
            self.login.close()
        for link in list(self.open):
            link.end(None)
