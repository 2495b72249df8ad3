"""The delivery loop: fetches the events that deliveries have for their receivers, and sends them off.

    due backlog ──delivery.next──▶ handout ──▶ fetch from the channel ──▶ bus ──▶ client manager

A few events that are in memory are delivered at once, within `wake`. For more, and for events that must be read from disk, each
backlog has one small task, alive only while there is something to deliver: a backlog that waits for the disk holds up no other.
Memory: events fetched by one task and not yet published are bounded by FETCH_BYTES and one batch; events published and not yet
taken, by the credit of their receiver.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from holdfast.bus.bus import Bus
from holdfast.bus.message import Delivered, DeliveredSlice
from holdfast.channel.channel import Channel
from holdfast.destination import effect
from holdfast.destination.delivery.delivery import Delivery
from holdfast.destination.delivery.handout import Handout, HandoutSlice
from holdfast.destination.directory import Directory
from holdfast.destination.effect import Holder
from holdfast.errors import Closed, Damaged, HoldfastError, NoSuchPosition, OutcomeUnknown, Unavailable
from holdfast.event.position import Ranges
from holdfast.node import supervision
from holdfast.node.clock import Clock
from holdfast.node.delivering.dead_and_detach import DeadAndDetach
from holdfast.node.delivering.head_scanner import HeadScanner
from holdfast.node.delivering.roster import Roster
from holdfast.node.figures import Figures
from holdfast.node.reading.head_reader import HeadReader
from holdfast.node.reading.shared_turn import SharedTurn
from holdfast.node.reading.slice_reader import SliceReader

log = logging.getLogger("holdfast.deliverer")

BacklogKey = effect.BacklogKey

EVENTS_MAX = 1_000
# Delivered within one `wake`, over all backlogs: beyond it tasks take turns, so that a flood leaves others theirs.
HANDOUTS_AT_ONCE = 16
EVENTS_AT_ONCE = 64
# Events that cannot be read are tried again after this.
AGAIN_MS = 1_000


class DeliveryLoop:
    def __init__(
        self,
        directory: Directory,
        find: Callable[[BacklogKey], Delivery | None],
        roster: Roster,
        heads: HeadReader,
        turn: SharedTurn,
        channel: Channel,
        bus: Bus,
        clock: Clock,
        dead_and_detach: DeadAndDetach,
        figures: Figures,
    ) -> None:
        """`find` gives the running delivery of a backlog."""
        self.events_delivered = 0
        self._directory = directory
        self._find = find
        self._roster = roster
        self._bus = bus
        self._clock = clock
        self._dead_and_detach = dead_and_detach
        self._figures = figures
        self._slices = SliceReader(directory, channel, clock)
        self._scanner = HeadScanner(heads, clock, turn, self._wake_backlog)
        self._due: dict[BacklogKey, None] = {}  # backlogs that may have something to deliver
        self._tasks: dict[BacklogKey, asyncio.Task[None]] = {}
        self._timers: dict[BacklogKey, tuple[int, asyncio.TimerHandle]] = {}

    def mark_due(self, key: BacklogKey) -> None:
        """A backlog may have something to deliver: the next `wake` sees to it."""
        self._due[key] = None

    def wake(self) -> None:
        """Deliver what is due, or start a task for it, unless one is at it already."""
        left = HANDOUTS_AT_ONCE
        for key in [key for key in self._due if key not in self._tasks and not self._roster.awaited.get(key)]:
            del self._due[key]
            delivery = self._find(key)
            if delivery is not None and delivery.has_views:
                self._scanner.scan(key, delivery)
            if delivery is None:
                self._rest(key)
            elif left and not delivery.is_careful:
                left -= self._deliver_at_once(key, delivery)
            elif delivery.is_ready(self._clock.now_ms()):
                self._begin_task(key, delivery)
            else:
                self._rest(key)

    def _deliver_at_once(self, key: BacklogKey, delivery: Delivery) -> bool:
        """Deliver one handout within this call if it is in memory; start a task for it if not, and for the rest of the
        backlog. Whether there was one."""
        handout = delivery.next(self._clock.now_ms(), min(EVENTS_AT_ONCE, self._share(key, delivery)))
        if handout is not None:
            ready = self._slices.recent(key, handout.slices)
            if ready is None:
                self._begin_task(key, delivery, handout)
                return True
            self._charge(key, delivery, handout.holder, ready)
            self._bus.hand_over(self._roster.route(handout.holder), Delivered(*handout.holder, ready))
        if delivery.is_ready(self._clock.now_ms()):
            self._begin_task(key, delivery)
        else:
            self._rest(key)
        return handout is not None

    def _begin_task(self, key: BacklogKey, delivery: Delivery, first: Handout | None = None) -> None:
        task = supervision.start(self._deliver_all(key, delivery, first), f"delivering {key}")
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._task_ended(key))

    def _task_ended(self, key: BacklogKey) -> None:
        del self._tasks[key]
        self._rest(key)
        if key in self._due:
            self.wake()

    async def _deliver_all(self, key: BacklogKey, delivery: Delivery, handout: Handout | None) -> None:
        """Deliver this, and then what else there is."""
        try:
            while self._find(key) is delivery:
                handout = handout or delivery.next(self._clock.now_ms(), self._share(key, delivery))
                if handout is None:
                    break
                try:
                    await self._deliver(key, delivery, handout)
                except HoldfastError:
                    raise
                except Exception as problem:  # a fault of ours: this much is tried again later, the rest goes on
                    supervision.report(f"delivering some of {key}", problem)
                    self._read_later(delivery, handout.holder, handout.slices)
                handout = None
                await asyncio.sleep(0)  # a turn for everyone else
            await self._dead_and_detach.bury(key, delivery.take_exhausted(), "redelivered too often", "redelivered")
        except Closed:
            pass
        except HoldfastError as problem:
            log.critical("exhausted events of %s cannot be buried: %s", key, problem)

    def _share(self, key: BacklogKey, delivery: Delivery) -> int:
        """How many events one receiver gets at a time: where several compete, not all of them, whatever credit the first has."""
        waiting = self._directory.backlog(key).waiting - delivery.in_flight
        return max(1, min(EVENTS_MAX, -(-waiting // max(1, len(delivery.holders())))))

    async def _deliver(self, key: BacklogKey, delivery: Delivery, handout: Handout) -> None:
        """Fetch and publish a handout in pieces. Slices that the receiver's credit in bytes no longer covers are given back.

        Slices fetched for a receiver that attached anew meanwhile are dropped: it has said what it holds, without them.
        """
        holder, slices, is_careful = handout
        attachment = self._roster.attachment(holder)
        begin, is_whole = 0, True
        while begin < len(slices):
            if begin and not delivery.has_credit(holder):
                delivery.give_back(holder, slices[begin:])
                return
            try:
                begin, ready, unfit, is_whole = await self._slices.fetch(key, slices, begin, is_whole)
                if is_careful and ready:
                    await self._dead_and_detach.note_in_hand(key, holder, _ranges_of(ready))
            except (OutcomeUnknown, Unavailable, Damaged, NoSuchPosition) as problem:
                log.critical("some events of %s cannot be read, and are tried again: %s", key, problem)
                self._read_later(delivery, holder, slices if is_careful else slices[begin:])
                return
            if self._roster.attachment(holder) != attachment:
                return
            for each in unfit:
                delivery.withdraw(holder, each.ranges)
            if ready:
                self._bus.publish(self._roster.route(holder), Delivered(*holder, ready, is_careful))
                self._charge(key, delivery, holder, ready)
            for ranges, reason, code in unfit:
                await self._dead_and_detach.bury(key, ranges, reason, code)
            if begin < len(slices):
                await asyncio.sleep(0)  # fetching from memory does not pause: others have their turn between two pieces

    def _charge(self, key: BacklogKey, delivery: Delivery, holder: Holder, ready: Sequence[DeliveredSlice]) -> None:
        figures = self._figures
        self.events_delivered += figures.handed_out(key, ready, self._clock.now_us() if figures.is_timing else 0)
        delivery.charge(holder, sum(len(each.batch) for each in ready))

    def _read_later(self, delivery: Delivery, holder: Holder, slices: Sequence[HandoutSlice]) -> None:
        """Try slices again later that cannot be read now: nobody holds them, and they stay unfinished. The rest goes on."""
        delivery.give_back(holder, slices)
        delivery.returned(_ranges_of(slices), self._clock.now_ms() + AGAIN_MS)

    # --- time --------------------------------------------------------------------------------------------------------

    def _rest(self, key: BacklogKey) -> None:
        """Nothing more of a backlog can be delivered for now: read the heads of events that have become due meanwhile, and be
        woken when the next one is. In this order: a timer that is set first would miss an event that is due between the two."""
        delivery = self._find(key)
        if delivery is not None and delivery.has_views:
            self._scanner.scan(key, delivery)
        self._set_timer(key)

    def _set_timer(self, key: BacklogKey) -> None:
        """Wake a backlog when its earliest delayed event is due."""
        delivery = self._find(key)
        at = delivery.wake_at_ms if delivery is not None else None
        known = self._timers.get(key)
        if at is None or (known is not None and known[0] == at):
            return
        if known is not None:
            known[1].cancel()
        self._timers[key] = at, self._clock.call_at(at, lambda: self._wake_backlog(key))

    def forget(self, key: BacklogKey) -> None:
        """The backlog was deleted: its delayed events are not waited for."""
        self._figures.forget(key)
        known = self._timers.pop(key, None)
        if known is not None:
            known[1].cancel()

    def _wake_backlog(self, key: BacklogKey) -> None:
        self._timers.pop(key, None)
        self._due[key] = None
        self.wake()

    async def stop(self) -> None:
        for _, timer in self._timers.values():
            timer.cancel()
        await self._scanner.stop()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _ranges_of(slices: Sequence[HandoutSlice | DeliveredSlice]) -> Ranges:
    return Ranges.gather((each.first, each.first + each.events - 1) for each in slices)
