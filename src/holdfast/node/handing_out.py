"""Handing out: what deliveries have for their receivers is fetched from the channel and sent off.

    due backlog ──delivery.next──▶ handout ──▶ fetch from the channel ──▶ bus ──▶ client manager

What is in memory is handed out at once, within `wake`, a little of it; for more, and for what must be read from disk, there is
one small task a backlog, alive only while there is something to hand out, so that a backlog that waits for the disk holds up no
other. Memory: what one task has fetched and not yet published is bounded by FETCH_BYTES and one batch; what is published and
not yet taken, by the credit of its receiver.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from holdfast.bus.bus import Bus
from holdfast.bus.message import Delivered, DeliveredSlice
from holdfast.channel.channel import Channel
from holdfast.destination import effect
from holdfast.destination.delivery import Delivery
from holdfast.destination.directory import Directory
from holdfast.destination.handout import Handout, HandoutSlice
from holdfast.errors import Closed, Damaged, HoldfastError, NoSuchPosition, OutcomeUnknown, Unavailable
from holdfast.event.position import Ranges
from holdfast.node.clock import Clock
from holdfast.node.giving_up import GivingUp
from holdfast.node.heads import Heads
from holdfast.node.roster import Holder, Roster
from holdfast.node.scanner import Scanner
from holdfast.node.slicing import Slicing

log = logging.getLogger("holdfast.deliverer")

BacklogKey = effect.BacklogKey

EVENTS_MAX = 1_000
# Handed out within one `wake`, over all backlogs: beyond it tasks take turns, so that a flood leaves others theirs.
HANDOUTS_AT_ONCE = 16
EVENTS_AT_ONCE = 64
# What cannot be read is tried again after this.
AGAIN_MS = 1_000


class HandingOut:
    def __init__(
        self,
        directory: Directory,
        deliveries: Mapping[BacklogKey, Delivery],
        roster: Roster,
        heads: Heads,
        channel: Channel,
        bus: Bus,
        clock: Clock,
        giving_up: GivingUp,
    ) -> None:
        self.due: dict[BacklogKey, None] = {}  # backlogs that may have something to hand out
        self.events_delivered = 0
        self._directory = directory
        self._deliveries = deliveries
        self._roster = roster
        self._bus = bus
        self._clock = clock
        self._giving_up = giving_up
        self._slicing = Slicing(directory, channel, clock)
        self._scanner = Scanner(heads, clock, self._ring)
        self._working: dict[BacklogKey, asyncio.Task[None]] = {}
        self._timers: dict[BacklogKey, tuple[int, asyncio.TimerHandle]] = {}

    def wake(self) -> None:
        """Hand out what every backlog has, or start a task for it, unless one is at it already."""
        left = HANDOUTS_AT_ONCE
        for key in [key for key in self.due if key not in self._working and not self._roster.awaited.get(key)]:
            del self.due[key]
            delivery = self._deliveries.get(key)
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
            self._bus.hand_over(self._roster.route(handout.holder), Delivered(*handout.holder, ready))
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
        if key in self.due:
            self.wake()

    async def _work(self, key: BacklogKey, handout: Handout | None) -> None:
        """Hand out this, and then what else there is."""
        delivery = self._deliveries[key]
        try:
            while self._deliveries.get(key) is delivery:
                handout = handout or delivery.next(self._clock.now_ms(), self._share(key, delivery))
                if handout is None:
                    break
                await self._hand_over(key, delivery, handout)
                handout = None
                await asyncio.sleep(0)  # a turn for everyone else
            await self._giving_up.bury(key, delivery.take_exhausted(), "redelivered too often", "redelivered")
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
        attachment = self._roster.attachments.get(holder)
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
            if self._roster.attachments.get(holder) != attachment:
                return
            for each in unfit:
                delivery.withdraw(holder, each.ranges)
            if ready:
                self._bus.publish(self._roster.route(holder), Delivered(*holder, ready))
                self._charge(delivery, holder, ready)
            for ranges, reason, code in unfit:
                await self._giving_up.bury(key, ranges, reason, code)
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

    # --- time --------------------------------------------------------------------------------------------------------

    def _set_timer(self, key: BacklogKey) -> None:
        """Come back when the earliest delayed event of a backlog is due."""
        delivery = self._deliveries.get(key)
        at = delivery.wake_at_ms if delivery is not None else None
        known = self._timers.get(key)
        if at is None or (known is not None and known[0] == at):
            return
        if known is not None:
            known[1].cancel()
        self._timers[key] = at, self._clock.call_later(at - self._clock.now_ms(), lambda: self._ring(key))

    def forget(self, key: BacklogKey) -> None:
        """The backlog is gone: what was delayed in it, for however long, is not waited for."""
        known = self._timers.pop(key, None)
        if known is not None:
            known[1].cancel()

    def _ring(self, key: BacklogKey) -> None:
        self._timers.pop(key, None)
        self.due[key] = None
        self.wake()

    async def stop(self) -> None:
        for _, timer in self._timers.values():
            timer.cancel()
        await self._scanner.stop()
        tasks = list(self._working.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
