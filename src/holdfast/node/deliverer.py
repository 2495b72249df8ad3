"""The deliverer: the primary's shell around `delivery`. It tells each delivery what happens, and has handed out what is due.

    effects of commands ──────┐
    receivers, credit, links ─┴──▶ delivery (machine), one a backlog ──due──▶ handing out ──▶ bus ──▶ client manager

Who is attached is in the `roster`; how events are fetched and sent off in `handing_out`; what becomes of those that cannot be,
and of sessions that are gone, in `giving_up`.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.bus.bus import Bus
from holdfast.channel.channel import Channel
from holdfast.destination import effect
from holdfast.destination.delivery import Delivery
from holdfast.destination.directory import Directory
from holdfast.event.position import Ranges
from holdfast.node.clock import Clock
from holdfast.node.expirer import Expirer
from holdfast.node.giving_up import GivingUp
from holdfast.node.handing_out import HandingOut
from holdfast.node.heads import Heads
from holdfast.node.roster import Holder, Roster
from holdfast.node.settings import NodeSettings

BacklogKey = effect.BacklogKey


class Deliverer:
    def __init__(self, directory: Directory, channel: Channel, bus: Bus, clock: Clock, settings: NodeSettings) -> None:
        self.deliveries: dict[BacklogKey, Delivery] = {}
        self._directory = directory
        self._clock = clock
        self._settings = settings
        self._roster = Roster()
        self._early_returns: list[effect.Returned] = []
        heads = Heads(directory, channel)
        self._giving_up = GivingUp(channel, clock, self.deliveries, self._roster)
        self._handing_out = HandingOut(directory, self.deliveries, self._roster, heads, channel, bus, clock, self._giving_up)
        self._expirer = Expirer(directory, heads, clock, self._giving_up.bury)
        self._due = self._handing_out.due
        # Asked of the deliverer, and done by its parts.
        self.expect = self._roster.expect
        self.expect_no_more = self._roster.expect_no_more
        self.came_early = self._roster.came_early
        self.route = self._roster.route
        self.wake = self._handing_out.wake
        self.give_up = self._giving_up.on_session

    # --- becoming primary --------------------------------------------------------------------------------------------

    def begin(self, epoch: int, early: Mapping[BacklogKey, Ranges]) -> None:
        """Start delivering; receivers that were attached before are waited for a little."""
        self._giving_up.epoch = epoch
        for key in self._directory.backlogs():
            self._create(key)
            if key in early:
                self.deliveries[key].prefer(early[key])
        for session in self._directory.sessions():
            for receiver, key in self._directory.receivers_of(session).items():
                if (session, receiver) in self._roster.early:
                    self._attach((session, receiver), key)
                else:
                    self._roster.wait_for((session, receiver), key)
        self._roster.early.clear()
        for each in self._early_returns:
            self.act(each)
        self._early_returns.clear()
        self._due.clear()
        self._due.update(dict.fromkeys(self.deliveries))
        self._clock.call_later(self._settings.start_grace_ms, self._stop_waiting)

    def came_back_early(self, returned: effect.Returned) -> None:
        """Somebody released these while the channel was still being replayed: what it said it holds is less by them."""
        if self._roster.early:
            self._early_returns.append(returned)

    def _stop_waiting(self) -> None:
        self._roster.awaited.clear()
        self.wake()

    def _create(self, key: BacklogKey) -> None:
        queue = self._directory.queue(key)
        self.deliveries[key] = delivery = Delivery(queue.backlog, queue.settings.redelivery_limit)
        self._expirer.begin(key, delivery)

    def _configure(self, name: str) -> None:
        """The settings of a destination are others now: a running delivery takes them."""
        for key, delivery in self.deliveries.items():
            if key[0] == name:
                delivery.configure(self._directory.queue(key).settings.redelivery_limit)
                self._due[key] = None

    # --- what happens ------------------------------------------------------------------------------------------------

    def placed(self, each: effect.Placed) -> None:
        """A batch waits. `wake` starts to hand it out, after all commands at hand were applied."""
        delivery = self.deliveries.get(each.backlog)
        if delivery is not None:
            delivery.placed(each.first, each.events)
            if delivery.has_expiries:
                self._expirer.placed(each.backlog, each.first, delivery)
            self._due[each.backlog] = None

    def act(self, each: effect.Effect) -> None:
        """Any other effect of an applied command."""
        if isinstance(each, effect.BacklogCreated):
            self._create(each.backlog)
            return
        if isinstance(each, effect.Configured):
            self._configure(each.name)
            return
        if isinstance(each, effect.Answer | effect.Claimed):
            return
        delivery = self.deliveries.get(each.backlog)
        if delivery is None:
            return
        if isinstance(each, effect.Finished):
            delivery.finished(each.ranges)
        elif isinstance(each, effect.Returned):
            delivery.returned(each.ranges, each.not_before_ms, each.session)
        elif isinstance(each, effect.Attached):
            self._attach((each.session, each.receiver), each.backlog)
        elif isinstance(each, effect.DetachedReceiver):
            self._detach((each.session, each.receiver), each.backlog)
        elif isinstance(each, effect.BacklogDeleted):
            del self.deliveries[each.backlog]
            self._expirer.forget(each.backlog)
            self._handing_out.forget(each.backlog)
            return
        self._due[each.backlog] = None

    def _attach(self, holder: Holder, key: BacklogKey) -> None:
        selector = self._directory.queue(key).receivers.selector_of(holder)
        self.deliveries[key].attach(holder, self._roster.attach(holder, key), selector)

    def _detach(self, holder: Holder, key: BacklogKey) -> None:
        self._roster.detach(holder, key)
        self.deliveries[key].detach(holder)

    @property
    def has_receivers(self) -> bool:
        return bool(self._roster.places)

    def grant(self, holder: Holder, events: int, bytes: int) -> None:
        key = self._roster.places.get(holder)
        if key is not None and key in self.deliveries:
            self.deliveries[key].grant(holder, events, bytes)
            self._due[key] = None
            self.wake()

    def pause(self, session: str) -> None:
        """Its link is lost: what it was granted is void. What it holds stays its own until it is detached."""
        for holder, key in self._roster.of_session(session):
            if key in self.deliveries:
                self.deliveries[key].revoke(holder)

    def congested(self, session: str, is_congested: bool) -> None:
        """Its link takes no more, or does again: until then it is passed over, whatever credit it has (B12)."""
        for holder, key in self._roster.of_session(session):
            if key in self.deliveries:
                self.deliveries[key].pass_over(holder, is_congested)
                self._due[key] = None
        if not is_congested:
            self.wake()

    @property
    def events_delivered(self) -> int:
        return self._handing_out.events_delivered

    async def stop(self) -> None:
        await self._expirer.stop()
        await self._handing_out.stop()
