"""The deliverer: the primary's shell around `delivery`. It fetches the bodies of what a delivery hands out and sends them off.

    effects, credit ──▶ delivery (machine) ──handout──▶ fetch from the channel ──▶ bus ──▶ client manager

What is in memory is handed out at once, within `wake`, a little of it; for more, and for what must be read from disk, there is
one small task a backlog, alive only while there is something to hand out, so that a backlog that waits for the disk holds up no
other. Memory: what one task has fetched and not yet published is bounded by FETCH_BYTES and one batch; what is published and
not yet taken, by the credit of its receiver.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence

from holdfast.bus.bus import Bus
from holdfast.bus.message import Delivered, DeliveredSlice
from holdfast.channel.channel import Channel, Purpose, Receipt
from holdfast.destination import command, effect
from holdfast.destination.delivery import Delivery
from holdfast.destination.directory import Directory
from holdfast.destination.handout import Handout, HandoutSlice
from holdfast.errors import Closed, Damaged, HoldfastError, NoSuchPosition, OutcomeUnknown, Unavailable
from holdfast.event.position import Ranges
from holdfast.node.clock import Clock
from holdfast.node.expirer import Expirer
from holdfast.node.heads import Heads
from holdfast.node.scanner import Scanner
from holdfast.node.settings import NodeSettings
from holdfast.node.slicing import Slicing, Unfit

log = logging.getLogger("holdfast.deliverer")

Holder = tuple[str, int]
BacklogKey = effect.BacklogKey

EVENTS_MAX = 1_000
# Handed out within one `wake`, over all backlogs: beyond it tasks take turns, so that a flood leaves others theirs.
HANDOUTS_AT_ONCE = 16
EVENTS_AT_ONCE = 64
# What finds no room, or cannot be read, is tried again after this.
AGAIN_MS = 1_000


class Deliverer:
    def __init__(self, directory: Directory, channel: Channel, bus: Bus, clock: Clock, settings: NodeSettings) -> None:
        self.deliveries: dict[BacklogKey, Delivery] = {}
        self.epoch = 0
        self.events_delivered = 0
        self._directory = directory
        self._channel = channel
        self._bus = bus
        self._clock = clock
        self._settings = settings
        self._places: dict[Holder, BacklogKey] = {}
        self._routes: dict[Holder, str] = {}
        self._held: dict[Holder, Ranges] = {}
        self._attachments: dict[Holder, int] = {}
        self._early: set[Holder] = set()
        self._early_returns: list[effect.Returned] = []
        self._due: dict[BacklogKey, None] = {}
        self._working: dict[BacklogKey, asyncio.Task[None]] = {}
        self._awaited: dict[BacklogKey, set[Holder]] = {}
        self._timers: dict[BacklogKey, tuple[int, asyncio.TimerHandle]] = {}
        heads = Heads(directory, channel)
        self._slicing = Slicing(directory, channel, clock)
        self._scanner = Scanner(heads, clock, self._ring)
        self._expirer = Expirer(directory, heads, clock, self._bury)

    # --- becoming primary --------------------------------------------------------------------------------------------

    def begin(self, epoch: int, early: Mapping[BacklogKey, Ranges]) -> None:
        """Start delivering. Receivers that were attached before are waited for a little, so that what they hold is not sent
        twice (rule 15).
        """
        self.epoch = epoch
        for key in self._directory.backlogs():
            self._create(key)
            if key in early:
                self.deliveries[key].prefer(early[key])
        for session in self._directory.sessions():
            for receiver, key in self._directory.receivers_of(session).items():
                if (session, receiver) in self._early:
                    self._attach((session, receiver), key)
                else:
                    self._awaited.setdefault(key, set()).add((session, receiver))
        self._early.clear()
        for each in self._early_returns:
            self.act(each)
        self._early_returns.clear()
        self._due = dict.fromkeys(self.deliveries)
        self._clock.call_later(self._settings.start_grace_ms, self._stop_waiting)

    def came_early(self, holder: Holder) -> None:
        """A receiver attached while the channel was still being replayed: it is here, and not waited for."""
        if holder in self._routes:
            self._early.add(holder)

    def came_back_early(self, returned: effect.Returned) -> None:
        """Somebody released these while the channel was still being replayed: what it said it holds is less by them."""
        if self._early:
            self._early_returns.append(returned)

    def _stop_waiting(self) -> None:
        self._awaited.clear()
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
            self._forget_timer(each.backlog)
            return
        self._due[each.backlog] = None

    def expect(self, holder: Holder, client_manager: str, held: Ranges) -> None:
        """A receiver is about to attach, holding these; it is reached through that client manager."""
        self._routes[holder] = client_manager
        self._held[holder] = held

    def expect_no_more(self, holder: Holder) -> None:
        """It was refused. One that is attached under the same number stays as it is."""
        if holder not in self._places:
            self._routes.pop(holder, None)
        self._held.pop(holder, None)

    def _attach(self, holder: Holder, key: BacklogKey) -> None:
        self._places[holder] = key
        self._attachments[holder] = self._attachments.get(holder, 0) + 1
        selector = self._directory.queue(key).receivers.selector_of(holder)
        self.deliveries[key].attach(holder, self._held.pop(holder, Ranges()), selector)
        awaited = self._awaited.get(key)
        if awaited is not None:
            awaited.discard(holder)

    def _detach(self, holder: Holder, key: BacklogKey) -> None:
        self._places.pop(holder, None)
        self._routes.pop(holder, None)
        self._held.pop(holder, None)
        self._attachments.pop(holder, None)
        self.deliveries[key].detach(holder)
        awaited = self._awaited.get(key)
        if awaited is not None:
            awaited.discard(holder)

    @property
    def has_receivers(self) -> bool:
        return bool(self._places)

    def route(self, holder: Holder) -> str:
        return self._routes.get(holder, "")

    def grant(self, holder: Holder, events: int, bytes: int) -> None:
        key = self._places.get(holder)
        if key is not None and key in self.deliveries:
            self.deliveries[key].grant(holder, events, bytes)
            self._due[key] = None
            self.wake()

    def pause(self, session: str) -> None:
        """Its link is lost: what it was granted is void. What it holds stays its own until it is detached."""
        for holder, key in self._places.items():
            if holder[0] == session and key in self.deliveries:
                self.deliveries[key].revoke(holder)

    def congested(self, session: str, is_congested: bool) -> None:
        """Its link takes no more, or does again: until then it is passed over, whatever credit it has (B12)."""
        for holder, key in self._places.items():
            if holder[0] == session and key in self.deliveries:
                self.deliveries[key].pass_over(holder, is_congested)
                self._due[key] = None
        if not is_congested:
            self.wake()

    # --- handing out -------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Hand out what every backlog has, or start a task for it, unless one is at it already."""
        left = HANDOUTS_AT_ONCE
        for key in [key for key in self._due if key not in self._working and not self._awaited.get(key)]:
            del self._due[key]
            delivery = self.deliveries.get(key)
            if delivery is not None and delivery.has_views:
                self._scanner.look(key, delivery)
            if delivery is None or not delivery.is_ready(self._clock.now_ms()):
                self._set_timer(key)
            elif left == 0:
                self._begin_work(key)
            else:
                left -= 1
                self._hand_out_at_once(key, delivery)

    def _hand_out_at_once(self, key: BacklogKey, delivery: Delivery) -> None:
        """One handout within this call, if it is in memory; a task for it if it is not, and for what there is beside it."""
        handout = delivery.next(self._clock.now_ms(), min(EVENTS_AT_ONCE, self._share(key, delivery)))
        if handout is not None:
            ready = self._slicing.recent(key, handout.slices)
            if ready is None:
                self._begin_work(key, handout)
                return
            self._charge(delivery, handout.holder, ready)
            self._bus.hand_over(self.route(handout.holder), Delivered(*handout.holder, ready))
        if delivery.is_ready(self._clock.now_ms()):
            self._begin_work(key)
        else:
            self._set_timer(key)

    def _begin_work(self, key: BacklogKey, first: Handout | None = None) -> None:
        task = asyncio.create_task(self._work(key, first))
        self._working[key] = task
        task.add_done_callback(lambda _: self._worked(key))

    def _worked(self, key: BacklogKey) -> None:
        del self._working[key]
        self._set_timer(key)
        if key in self._due:
            self.wake()

    async def _work(self, key: BacklogKey, handout: Handout | None) -> None:
        """Hand out this, and then what else there is."""
        delivery = self.deliveries[key]
        try:
            while self.deliveries.get(key) is delivery:
                handout = handout or delivery.next(self._clock.now_ms(), self._share(key, delivery))
                if handout is None:
                    break
                await self._hand_over(key, delivery, handout)
                handout = None
                await asyncio.sleep(0)  # a turn for everyone else
            await self._bury(key, delivery.take_exhausted(), "redelivered too often", "redelivered")
        except Closed:
            pass
        except HoldfastError as problem:
            log.critical("some events of %s cannot be buried: %s", key, problem)

    def _share(self, key: BacklogKey, delivery: Delivery) -> int:
        """How much one receiver gets at a time: where several compete, not all that there is, whatever credit the first has."""
        waiting = self._directory.backlog(key).waiting - delivery.in_flight
        return max(1, min(EVENTS_MAX, -(-waiting // max(1, len(delivery.holders())))))

    async def _hand_over(self, key: BacklogKey, delivery: Delivery, handout: Handout) -> None:
        """Fetch and publish a handout in pieces. What the receiver's credit in bytes no longer covers is given back; what was
        fetched for a receiver that attached anew meanwhile is dropped: it was asked what it holds, and this is not part of it.
        """
        holder, slices = handout
        attachment = self._attachments.get(holder)
        begin, is_whole = 0, True
        while begin < len(slices):
            if begin and not delivery.has_credit(holder):
                delivery.give_back(holder, slices[begin:])
                return
            try:
                begin, ready, unfit, is_whole = await self._slicing.fetch(key, slices, begin, is_whole)
            except (OutcomeUnknown, Unavailable, Damaged, NoSuchPosition) as problem:
                log.critical("some events of %s cannot be read, and are tried again: %s", key, problem)
                self._read_later(delivery, holder, slices[begin:])
                return
            if self._attachments.get(holder) != attachment:
                return
            for each in unfit:
                delivery.withdraw(holder, each.ranges)
            if ready:
                self._bus.publish(self.route(holder), Delivered(*holder, ready))
                self._charge(delivery, holder, ready)
            await self._bury_unfit(key, unfit)
            if begin < len(slices):
                await asyncio.sleep(0)  # what is in memory is fetched without a pause: others have their turn between two pieces

    def _charge(self, delivery: Delivery, holder: Holder, ready: Sequence[DeliveredSlice]) -> None:
        self.events_delivered += sum(each.events for each in ready)
        delivery.charge(holder, sum(len(each.batch) for each in ready))

    def _read_later(self, delivery: Delivery, holder: Holder, slices: Sequence[HandoutSlice]) -> None:
        """What cannot be read now stays unfinished, and nobody's; the rest goes on."""
        delivery.give_back(holder, slices)
        ranges = Ranges.gather((each.first, each.first + each.events - 1) for each in slices)
        delivery.returned(ranges, self._clock.now_ms() + AGAIN_MS)

    async def _bury_unfit(self, key: BacklogKey, unfit: Iterable[Unfit]) -> None:
        for ranges, reason, code in unfit:
            await self._bury(key, ranges, reason, code)

    async def _bury(self, key: BacklogKey, ranges: Ranges, reason: str, code: str) -> None:
        if not ranges:
            return
        for part in ranges.portions(command.RANGES_MAX):
            dead = command.Dead(self.epoch, *key, part.to_bytes(), reason, code, self._clock.now_ms())
            try:
                await self._channel.append(command.encode(dead), Purpose.UPKEEP)
            except (Unavailable, OutcomeUnknown) as problem:
                log.error("%s: %s", key, problem)
                if key in self.deliveries:
                    self.deliveries[key].returned(part, self._clock.now_ms() + AGAIN_MS)

    # --- giving up on a session --------------------------------------------------------------------------------------

    def give_up(self, session: str) -> None:
        """It did not come back: what it was handed counts as delivered (rule 5), and goes to others (rule 4)."""
        for holder, key in self._places.items():
            if holder[0] == session and key in self.deliveries:
                for held in self.deliveries[key].held(holder).portions(command.RANGES_MAX):
                    self._issue(command.Release(*key, session, held.to_bytes(), at_ms=self._clock.now_ms()))
        detaching = self._issue(command.Detach(session, at_ms=self._clock.now_ms(), epoch=self.epoch))
        detaching.add_done_callback(lambda done: self._given_up(session, done))

    def _given_up(self, session: str, done: asyncio.Future[Receipt]) -> None:
        """Where there was no room it is tried again: until it is detached, nobody else gets what it holds."""
        problem = None if done.cancelled() else done.exception()
        if isinstance(problem, Unavailable | OutcomeUnknown):
            log.error("session %s cannot be given up yet: %s", session, problem)
            self._clock.call_later(AGAIN_MS, lambda: self.give_up(session))

    def _issue(self, issued: command.Command) -> asyncio.Future[Receipt]:
        future = self._channel.append(command.encode(issued), Purpose.UPKEEP)
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        return future

    # --- time --------------------------------------------------------------------------------------------------------

    def _set_timer(self, key: BacklogKey) -> None:
        """Come back when the earliest delayed event of a backlog is due."""
        delivery = self.deliveries.get(key)
        at = delivery.wake_at_ms if delivery is not None else None
        known = self._timers.get(key)
        if at is None or (known is not None and known[0] == at):
            return
        if known is not None:
            known[1].cancel()
        self._timers[key] = at, self._clock.call_later(at - self._clock.now_ms(), lambda: self._ring(key))

    def _forget_timer(self, key: BacklogKey) -> None:
        """The backlog is gone: what was delayed in it, for however long, is not waited for."""
        known = self._timers.pop(key, None)
        if known is not None:
            known[1].cancel()

    def _ring(self, key: BacklogKey) -> None:
        self._timers.pop(key, None)
        self._due[key] = None
        self.wake()

    async def stop(self) -> None:
        for _, timer in self._timers.values():
            timer.cancel()
        await self._scanner.stop()
        await self._expirer.stop()
        tasks = list(self._working.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
