"""The deliverer: the primary's shell around `delivery`. It tells each delivery what happens, and delivers what is due.

    effects of commands ──────┐
    receivers, credit, links ─┴──▶ delivery (machine), one a backlog ──due──▶ delivery_loop ──▶ bus ──▶ client manager

`roster` knows who is attached. `delivery_loop` fetches events and sends them off. `dead_and_detach` writes the commands about
events that cannot be delivered, and about sessions that are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from holdfast.bus.bus import Bus
from holdfast.bus.message import NoLongerHeld
from holdfast.channel.channel import Channel
from holdfast.destination import effect
from holdfast.destination.delivery.delivery import Delivery
from holdfast.destination.directory import Directory
from holdfast.destination.effect import Holder
from holdfast.destination.state.subscription import Subscription
from holdfast.errors import SubscriptionInUse
from holdfast.event import position
from holdfast.event.position import Ranges
from holdfast.node.clock import Clock
from holdfast.node.delivering.congestion import Congestion
from holdfast.node.delivering.dead_and_detach import DeadAndDetach, Returning
from holdfast.node.delivering.delivery_loop import DeliveryLoop
from holdfast.node.delivering.expirer import Expirer
from holdfast.node.delivering.roster import Roster, Spans
from holdfast.node.figures import Figures
from holdfast.node.reading.head_reader import HeadReader
from holdfast.node.reading.shared_turn import SharedTurn

BacklogKey = effect.BacklogKey
# Effects that change nothing for deliveries.
_NOT_DELIVERED = (
    effect.Answer, effect.Claimed, effect.BacklogCreated, effect.Died, effect.ReturnedOften, effect.WindowShortened,
    effect.SubscriptionRemoved, effect.Purged, effect.Resembling, effect.Checked,
)  # fmt: skip


class Deliverer:
    def __init__(
        self,
        directory: Directory,
        channel: Channel,
        bus: Bus,
        clock: Clock,
        turn: SharedTurn | None = None,
        figures: Figures | None = None,
    ) -> None:
        self.deliveries: dict[BacklogKey, Delivery] = {}
        self._directory = directory
        self._bus = bus
        self._roster = Roster()
        self._congestion = Congestion()
        self._early_returns: list[effect.Returned] = []
        self._taken_over_at = 0  # the last position before the own claim, where another was primary until then
        self._away: set[str] = set()  # sessions that have lost their links
        self.is_silent: Callable[[str], bool] = lambda client_manager: False  # in a cluster, by its heartbeats
        heads, turn, find = HeadReader(directory, channel), turn or SharedTurn(), self.deliveries.get
        self._dead_and_detach = DeadAndDetach(channel, clock, find)
        beside = (self._dead_and_detach, figures or Figures())
        self._loop = DeliveryLoop(directory, find, self._roster, heads, turn, channel, bus, clock, *beside)
        self._given_up: dict[str, int] = {}  # sessions of client managers that are gone, and the links by which they had come
        self._expirer = Expirer(directory, heads, clock, turn, self._dead_and_detach.bury)

    # --- becoming primary --------------------------------------------------------------------------------------------

    def begin(self, epoch: int, early: Mapping[BacklogKey, Ranges], is_taken_over: bool = False) -> None:
        """Start delivering. Receivers that were attached before the start are awaited until they attach again, or are
        detached. `is_taken_over`: another node was primary until now, and nobody knows what it has sent."""
        self._dead_and_detach.epoch = epoch
        self._taken_over_at = position.of(self._directory.applied) if is_taken_over else 0
        for queue in self._directory.catalog.used_queues():
            if queue.backlog.has_expiries or queue.key in early:
                self._delivery(queue.key)
        for key, ranges in early.items():
            if key in self.deliveries:
                self.deliveries[key].prefer(ranges)
        for session in self._directory.sessions():
            for receiver, key in self._directory.receivers_of(session).items():
                if self._roster.is_early((session, receiver)):
                    self._attach((session, receiver), key)
                else:
                    self._roster.wait_for((session, receiver), key)
        self._roster.forget_early()
        for each in self._early_returns:
            self.act(each)
        self._early_returns.clear()
        for key in self.deliveries:
            self._loop.mark_due(key)

    def came_back_early(self, returned: effect.Returned) -> None:
        """Somebody released these while the channel was still being replayed: it no longer holds them, though it said so."""
        if self._roster.has_early:
            self._early_returns.append(returned)

    def stop_waiting(self) -> bool:
        """Detach receivers from before the start that did not come back, although their sessions did. Whether anybody is still
        awaited."""
        for holder in self._roster.missing():
            self._dead_and_detach.detach_receiver(holder)
        return self._roster.is_waiting

    def _delivery(self, key: BacklogKey) -> Delivery | None:
        """The delivery of a backlog, made when it is first needed: of a hundred thousand queues few are in use. None when there
        is no such backlog."""
        delivery = self.deliveries.get(key)
        if delivery is None and (queue := self._directory.catalog.queues.get(key)) is not None:
            self.deliveries[key] = delivery = Delivery(queue.backlog, queue.settings.redelivery_limit)
            delivery.doubt_until(min(queue.backlog.furthest, self._taken_over_at))
            self._expirer.begin(key, delivery)
        return delivery

    def in_flight(self, key: BacklogKey) -> int:
        """How many events of a backlog are in flight."""
        delivery = self.deliveries.get(key)
        return 0 if delivery is None else delivery.in_flight

    def _configure(self, name: str) -> None:
        """Give the running deliveries of a destination its new settings."""
        for key, delivery in self.deliveries.items():
            if key[0] == name:
                delivery.configure(self._directory.queue(key).settings.redelivery_limit)
                self._loop.mark_due(key)

    # --- effects -----------------------------------------------------------------------------------------------------

    def placed(self, each: effect.Placed) -> None:
        """A batch was placed. `wake` delivers it, after all commands at hand were applied."""
        delivery = self.deliveries.get(each.backlog)
        if delivery is not None:
            delivery.placed(each.first, each.events)
            if delivery.has_expiries:
                self._expirer.placed(each.backlog, each.first, delivery)
            self._loop.mark_due(each.backlog)
        elif self._directory.backlog(each.backlog).has_expiries:
            self._delivery(each.backlog)

    def act(self, each: effect.Effect) -> None:
        """Act on any other effect of an applied command."""
        if isinstance(each, effect.Configured):
            self._configure(each.name)
            return
        if isinstance(each, _NOT_DELIVERED):
            return
        was_away = False
        if isinstance(each, effect.DetachedReceiver):
            was_away = self._roster.detach((each.session, each.receiver), each.backlog)
        is_of_receiver = isinstance(each, effect.Attached | effect.DetachedReceiver | effect.Returned)
        delivery = self._delivery(each.backlog) if is_of_receiver else self.deliveries.get(each.backlog)
        if delivery is None:
            return
        if isinstance(each, effect.Finished):
            delivery.finished(each.ranges)
        elif isinstance(each, effect.Returned):
            delivery.returned(each.ranges, each.not_before_ms, each.session)
        elif isinstance(each, effect.Locked):
            delivery.locked(each.ranges)
        elif isinstance(each, effect.Unlocked):
            delivery.unlocked(each.ranges)
        elif isinstance(each, effect.Attached):
            self._attach_again((each.session, each.receiver), each.backlog)
        elif isinstance(each, effect.DetachedReceiver):
            if was_away:  # nobody knows which event its program was working on, nor what it was sent
                delivery.begin_crash_care()
                delivery.doubt_until(self._taken_over_at)
            delivery.detach((each.session, each.receiver))
        elif isinstance(each, effect.BacklogDeleted):
            del self.deliveries[each.backlog]
            self._expirer.forget(each.backlog)
            self._loop.forget(each.backlog)
            return
        self._loop.mark_due(each.backlog)

    def _attach_again(self, holder: Holder, key: BacklogKey) -> None:
        """Attach a receiver, perhaps not for the first time, and tell it which of the events it says it holds it holds no longer.
        One that was detached meanwhile holds nothing: its events went to others. One that keeps what it is handed has those of
        them that nobody else holds."""
        is_owner = self._roster.is_known(holder, key) or self._roster.is_keeping(holder)
        lost = Ranges() if is_owner else self._roster.disown(holder)
        lost = self._attach(holder, key) or lost
        if lost:
            self._bus.publish(self._roster.route(holder), NoLongerHeld(*holder, lost))

    def _attach(self, holder: Holder, key: BacklogKey) -> Ranges:
        selector = self._directory.queue(key).receivers.selector_of(holder)
        delivery = self._delivery(key)
        assert delivery is not None, f"{holder} attaches to {key}, which is not there"
        is_awaited = holder in self._roster.awaited.get(key, ())
        held = self._roster.attach(holder, key)
        if is_awaited and held:
            delivery.doubt_until(min(held.last, self._taken_over_at))
        ahead, keeps = self._roster.take_ahead(holder), self._roster.is_keeping(holder)
        lost = delivery.attach(holder, held, selector, ahead, is_keeping=keeps)
        if self._congestion.is_passed_over(holder[0], self._roster.route(holder)):
            delivery.pass_over(holder, True)
        return lost

    # --- what receivers say ------------------------------------------------------------------------------------------

    @property
    def has_receivers(self) -> bool:
        return bool(self._roster.attached)

    def expect(
        self, holder: Holder, client_manager: str, held: Ranges, ahead: Spans | None = None, keeps: bool = False
    ) -> None:  # fmt: skip
        """A receiver is about to attach, holding these (`ahead`: its program not yet), reached through that client manager."""
        self._away.discard(holder[0])
        self._roster.expect(holder, client_manager, held, ahead, keeps)

    def expect_no_more(self, holder: Holder) -> None:
        """A receiver that was about to attach was refused."""
        self._roster.expect_no_more(holder)

    def came_early(self, holder: Holder) -> None:
        """A receiver attached while the channel was still being replayed."""
        self._roster.came_early(holder)

    def route(self, holder: Holder) -> str:
        """The client manager through which a receiver is reached; "" when none has spoken for it."""
        return self._roster.route(holder)

    def reached(self, holder: Holder, place: int) -> None:
        """The receiver's client has handed everything up to this position to its program, in the order of delivery."""
        key = self._roster.attached.get(holder)
        if key is not None and key in self.deliveries:
            self.deliveries[key].reached(holder, place)

    def grant(self, holder: Holder, events: int, bytes: int, handed: int = 0, withdrawn: int = 0) -> None:
        """A receiver may be sent more, or, of what was `withdrawn`, less; `handed` as in `reached`."""
        key = self._roster.attached.get(holder)
        if key is not None and key in self.deliveries:
            self.deliveries[key].reached(holder, handed)
            self.deliveries[key].grant(holder, events, bytes, withdrawn)
            self._loop.mark_due(key)
            self.wake()

    def pause(self, session: str) -> None:
        """The link of a session is lost: its credit is void. It keeps the events it holds until it is detached."""
        self._away.add(session)
        for holder, key in self._roster.of_session(session):
            if key in self.deliveries:
                self.deliveries[key].revoke(holder)

    def is_away(self, holder: Holder) -> bool:
        """Whether a receiver cannot be reached now: its session has lost its link, it has not come back to this primary, or its
        client manager is silent."""
        session = self._directory.sessions().get(holder[0])
        is_silent = session is not None and bool(session.client_manager) and self.is_silent(session.client_manager)
        return is_silent or holder[0] in self._away or not self.route(holder)

    def congested(self, session: str, is_congested: bool) -> None:
        """The link of a session takes no more, or does again. Until then the session is passed over, whatever its credit
        (B12)."""
        self._congestion.note_session(session, is_congested, lambda: {session for session, _ in self._roster.attached})
        self._pass_over(self._roster.of_session(session))
        if not is_congested:
            self.wake()

    def client_manager_congested(self, client_manager: str, is_congested: bool) -> None:
        """A client manager of another process takes nothing of what is published to it, or does so again."""
        self._congestion.note_client_manager(client_manager, is_congested)
        self._pass_over(self._roster.through(client_manager))
        if not is_congested:
            self.wake()

    def _pass_over(self, holders: Iterable[tuple[Holder, BacklogKey]]) -> None:
        for holder, key in holders:
            if key in self.deliveries:
                is_passed_over = self._congestion.is_passed_over(holder[0], self._roster.route(holder))
                self.deliveries[key].pass_over(holder, is_passed_over)
                self._loop.mark_due(key)

    def link_began(self, client_manager: str) -> None:
        """The link with a client manager ended, or began anew: what was published on the former one may be lost. The credit of
        its receivers is void until it has said again what they hold."""
        self.client_manager_congested(client_manager, False)
        for holder, key in self._roster.through(client_manager):
            if key in self.deliveries:
                self.deliveries[key].revoke(holder)

    def detach_session(self, session: str, link: int = 0) -> None:
        """A session did not come back: events handed to its programs count as delivered, and all that it holds goes to others.
        Unless it has come by a later link of its client than this one; 0: by whatever link."""
        self._away.discard(session)
        self._dead_and_detach.detach_session(session, link, *self._held_by(session))

    def detach_lost(self, session: str, link: int) -> None:
        """The client manager of a session is gone, and it has not come by a later link: as if it did not come back. Said again
        while that is not applied, it does nothing: what is released twice would be counted twice."""
        if self._given_up.get(session) != link:
            known = self._directory.sessions()
            self._given_up = {each: former for each, former in self._given_up.items() if each in known} | {session: link}
            self.detach_session(session, link)

    def _held_by(self, session: str) -> tuple[list[Returning], list[Returning]]:
        """What a session holds: events that its programs were handed, and others."""
        attached = [(holder, key) for holder, key in self._roster.of_session(session) if key in self.deliveries]
        seen = [(key, self.deliveries[key].seen(holder)) for holder, key in attached]
        unseen = [(key, self.deliveries[key].unseen(holder)) for holder, key in attached]
        return seen, unseen

    def prepare_take_over(self, key: BacklogKey, session: str) -> None:
        """A receiver of this session is about to take over a subscription: its present receiver gets nothing more, and the events
        handed to its program count as delivered. Nothing is done where the command will be refused."""
        queue, delivery = self._directory.catalog.queues.get(key), self.deliveries.get(key)
        if delivery is None or not isinstance(queue, Subscription):
            return
        try:
            former = queue.taken_over_by(session)
        except SubscriptionInUse:
            return
        for holder in former:
            delivery.revoke(holder)
            self._dead_and_detach.release(holder[0], [(key, delivery.seen(holder))], [(key, delivery.unseen(holder))])

    # --- delivering --------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Deliver what is due, or begin to."""
        self._loop.wake()

    async def bury(self, key: BacklogKey, ranges: Ranges, reason: str, code: str) -> None:
        """Send these events to the dead queue."""
        await self._dead_and_detach.bury(key, ranges, reason, code)

    @property
    def events_delivered(self) -> int:
        return self._loop.events_delivered

    async def stop(self) -> None:
        await self._expirer.stop()
        await self._loop.stop()
