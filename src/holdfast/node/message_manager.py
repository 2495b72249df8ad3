"""The message manager: owns destinations. It follows its channel, applies every command, and, as primary, acts on the effects.

    channel ──read──▶ apply (directory) ──effects──▶ deliverer ──▶ bus ──▶ client managers
                          │
                          └── upkeep: snapshots, releasing what is finished, carrying stragglers

The rhythm is always: read, apply, then speak; nothing is said that is not durable, because nothing that is not durable is read.

Starting (rule 16): restore the newest snapshot, replay what comes after it, then claim the next epoch in the channel. From its
own claim on it is primary. Events are accepted meanwhile; those of producers that appeared during the start are delivered first,
then what was unfinished before (A7), then what is new.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from holdfast.bus.bus import Bus
from holdfast.bus.message import (
    AdministrationAsked,
    BrowseAsked,
    CreditGranted,
    Holding,
    LinkCongested,
    LinkDown,
    NotAttached,
    Question,
    ReceiverGone,
    Reply,
    SessionGone,
    WatermarksAsked,
)
from holdfast.channel.channel import Channel, Entry, Purpose
from holdfast.destination import command, effect
from holdfast.destination.directory import Directory
from holdfast.errors import Closed, Damaged, HoldfastError, OutcomeUnknown, Refused, Unavailable
from holdfast.node import administration
from holdfast.node.browsing import Browsing
from holdfast.node.clock import Clock
from holdfast.node.deliverer import Deliverer
from holdfast.node.flow import Flow
from holdfast.node.lingering import Lingering
from holdfast.node.patience import Patience
from holdfast.node.readers import QUESTIONS as READERS_QUESTIONS
from holdfast.node.readers import Readers
from holdfast.node.settings import NodeSettings
from holdfast.node.start_order import StartOrder
from holdfast.node.upkeep import Upkeep

log = logging.getLogger("holdfast.message_manager")


# When a claim finds no room, it is tried again after this.
CLAIM_AGAIN_S = 0.5
# So long others wait for their turn while a long run is applied.
TURN_US = 2_000
# How long batches that nobody receives are left to gather before they are applied: many at a time cost less than half as much.
LINGER_S = 0.02


def subject_of(name: str) -> str:
    return f"message_manager.{name}"


class MessageManager:
    def __init__(self, name: str, channel: Channel, bus: Bus, clock: Clock, settings: NodeSettings) -> None:
        self.name = name
        self.channel = channel
        self.directory = Directory()
        self.applied = 0
        self.is_primary = False
        self.failure: HoldfastError | None = None
        # Whoever wants to know: that something was sent to `_ADMIN`, that a backlog came or went.
        self.administration_asked: Callable[[], None] = lambda: None
        self.backlogs_changed: Callable[[], None] = lambda: None
        self._bus = bus
        self._clock = clock
        self._settings = settings
        self._deliverer: Deliverer | None = None
        self._upkeep: Upkeep | None = None
        self._patience: Patience | None = None
        self._browsing: Browsing | None = None
        self._readers: Readers | None = None
        self._browsers: set[asyncio.Task[None]] = set()
        self._flow = Flow(self.directory, bus)
        self._tail = 0
        self._snapshot_at = 0
        self._awaiting: list[tuple[int, asyncio.Future[None]]] = []
        self._start_order = StartOrder()
        self._replayed = asyncio.Event()
        self._claimed = asyncio.Event()
        self._waiting: list[Callable[[], None]] = []
        self._lingering = Lingering()
        self._following: asyncio.Task[None] | None = None
        self._stop_listening: Callable[[], None] = lambda: None

    # --- starting and stopping ---------------------------------------------------------------------------------------

    async def start(self, before_claim: Callable[[], Awaitable[None]] | None = None) -> None:
        """Begin to follow the channel. `before_claim` may still append what was recorded before this node existed (A7)."""
        snapshot = await self.channel.load_snapshot()
        if snapshot is not None:
            self.directory = Directory.restore(snapshot.chunks)
            self.applied = self._snapshot_at = snapshot.at
        elif self.channel.first > 1:
            raise Refused(
                f"the channel begins at entry {self.channel.first} and has no snapshot of what came before; restore a backup"
            )
        self._tail = self.channel.durable
        if self.applied >= self._tail:
            self._reach_tail()
        self._flow = Flow(self.directory, self._bus)
        self._deliverer = Deliverer(self.directory, self.channel, self._bus, self._clock, self._settings)
        self._upkeep = Upkeep(self.directory, self.channel, self._clock, self._settings, self.until_applied)
        self._patience = Patience(self.directory, self.channel, self._clock, self._settings)
        self._browsing = Browsing(self.directory, self.channel)
        self._readers = Readers(self.directory, self.channel, self._bus, self._clock)
        self._stop_listening = self._bus.listen(subject_of(self.name), self._hear)
        self._following = asyncio.create_task(self._follow(before_claim), name=f"{self.name} follows its channel")

    async def wait_until_primary(self) -> None:
        """Return once the channel is replayed and this node's claim is applied; raise what kept it from that."""
        assert self._following is not None
        claimed = asyncio.create_task(self._claimed.wait())
        await asyncio.wait({claimed, self._following}, return_when=asyncio.FIRST_COMPLETED)
        claimed.cancel()
        if self.failure is not None:
            raise self.failure

    async def failed(self) -> None:
        """Return only when it cannot go on; `failure` says why."""
        assert self._following is not None
        await asyncio.wait({self._following})

    async def stop(self) -> None:
        self._stop_listening()
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        for browser in self._browsers:
            browser.cancel()
        await asyncio.gather(*self._browsers, return_exceptions=True)
        if self._readers is not None:
            await self._readers.stop()
        if self._deliverer is not None:
            await self._deliverer.stop()
        if self._patience is not None:
            self._patience.stop()
        if self._upkeep is not None:
            await self._upkeep.stop(self.is_primary and self.failure is None)
        self.is_primary = False

    # --- following ---------------------------------------------------------------------------------------------------

    async def _follow(self, before_claim: Callable[[], Awaitable[None]] | None) -> None:
        claiming = asyncio.create_task(self._claim_when_replayed(before_claim))
        try:
            async for entries in self.channel.read(self.applied + 1, self._take_at_once):
                await self._take_in_turns(entries)
                if self.applied >= self.channel.durable and self._may_linger(entries):
                    await self._lingering.pause(LINGER_S)
        except Closed:
            raise
        except HoldfastError as problem:
            self.failure = problem
            log.critical("message manager %s stops: %s", self.name, problem)
        except Exception as problem:  # a fault of ours: going on would let the state drift from the channel
            self.failure = Damaged(f"entry {self.applied + 1} could not be applied: {problem!r}; report this with the journal")
            log.critical("message manager %s stops", self.name, exc_info=problem)
        finally:
            claiming.cancel()
            await asyncio.gather(claiming, return_exceptions=True)

    async def _take_in_turns(self, entries: Sequence[Entry]) -> None:
        """A long replay, a flood, or what has lingered leaves every other task its turn."""
        until_us = self._clock.now_us() + TURN_US
        for entry in entries:
            self._apply(entry)
            if self._clock.now_us() > until_us:
                self._speak()
                await asyncio.sleep(0)
                until_us = self._clock.now_us() + TURN_US
        self._speak()

    def _take(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._apply(entry)
        self._speak()

    def _speak(self) -> None:
        """Of what was applied."""
        if self._awaiting:
            self._tell_applied()
        if self.is_primary:
            self._wake()

    def _take_at_once(self, entries: Sequence[Entry]) -> bool:
        """Somebody waits for it: what else has come meanwhile comes after it. But what was said before it is heard before it,
        such as what a receiver holds before it attaches."""
        if not self.is_primary or not self._bus.is_quiet or self._may_linger(entries):
            return False
        self._take(entries)
        return True

    def _may_linger(self, entries: Sequence[Entry]) -> bool:
        """Nobody receives or reads, nobody waits for an answer, and no destination has a high water that it must not pass unseen:
        then what comes next may be applied together."""
        assert self._readers is not None
        if not self.is_primary or self.deliverer.has_receivers or self._readers.are_waiting:
            return False
        if self._awaiting or self._flow.is_watching:
            return False
        return all(command.kind_of(entry.command) == command.BatchCommand.KIND for entry in entries)

    def hurry(self) -> None:
        """Somebody waits for what is applied next."""
        self._lingering.hurry()

    async def _claim_when_replayed(self, before_claim: Callable[[], Awaitable[None]] | None) -> None:
        """Whatever fails here must not keep it from delivering: what could not be imported stays where it is."""
        if before_claim is not None:
            try:
                await before_claim()
            except HoldfastError as problem:
                log.error("not everything that was recorded before the start could be taken: %s", problem)
            except Exception as problem:  # a fault of ours: it must not keep what is here from being delivered
                log.critical("what was recorded before the start could not be taken", exc_info=problem)
        await self._replayed.wait()
        while not self.is_primary:
            claim = command.Claim(epoch=self.directory.epoch + 1, node=self.name)
            try:
                await self.channel.append(command.encode(claim), Purpose.UPKEEP)
                return
            except (Unavailable, OutcomeUnknown) as problem:
                log.error("message manager %s cannot claim yet: %s", self.name, problem)
                await asyncio.sleep(CLAIM_AGAIN_S)

    def _apply(self, entry: Entry) -> None:
        effects = self.directory.apply(entry.number, entry.command)
        self.applied = entry.number
        if not self.is_primary and entry.number > self._tail:
            self._start_order.note(entry, effects)
        elif entry.number == self._tail:
            self._reach_tail()
        for each in effects:
            self._act(each)

    def _reach_tail(self) -> None:
        """Everything from before this start is applied."""
        self._start_order.reached_tail(self.directory)
        self._replayed.set()

    def _act(self, each: effect.Effect) -> None:
        if type(each) is effect.Placed:  # most effects by far
            if self.is_primary:
                self.deliverer.placed(each)
                if self._flow.is_watching:
                    self._flow.touched(each.backlog[0])
            return
        if isinstance(each, effect.Answer):
            if each.origin:
                self._bus.publish(each.origin, Reply(each.token, each.value, each.error))
        elif isinstance(each, effect.Claimed):
            self._become_primary(each)
        elif isinstance(each, effect.Attached) and not self.is_primary:
            assert self._deliverer is not None
            self._deliverer.came_early((each.session, each.receiver))
        elif isinstance(each, effect.Returned) and not self.is_primary:
            assert self._deliverer is not None
            self._deliverer.came_back_early(each)
        elif self.is_primary:
            assert self._deliverer is not None
            if isinstance(each, effect.DetachedReceiver) and each.reason:
                self._tell_detached(each)
            self._deliverer.act(each)
            self._note_flow(each)

    def _note_flow(self, each: effect.Effect) -> None:
        if isinstance(each, effect.Finished):
            if self._flow.is_watching:
                self._flow.touched(each.backlog[0])
        elif isinstance(each, effect.BacklogCreated | effect.BacklogDeleted):
            self._flow.configured(each.backlog[0])
            self.backlogs_changed()
        elif isinstance(each, effect.Configured):
            self._flow.configured(each.name)

    def _tell_detached(self, gone: effect.DetachedReceiver) -> None:
        assert self._deliverer is not None
        route = self._deliverer.route((gone.session, gone.receiver))
        if route:
            self._bus.publish(route, ReceiverGone(gone.session, gone.receiver, "detached", gone.reason))

    def _become_primary(self, claimed: effect.Claimed) -> None:
        assert self._deliverer is not None and self._upkeep is not None and self._patience is not None
        if claimed.node != self.name or self.applied <= self._tail:
            return  # an earlier life's claim, or another's
        self.is_primary = True
        self._flow.begin()
        self._deliverer.begin(claimed.epoch, self._start_order.early())
        self._upkeep.begin(claimed.epoch, self._snapshot_at)
        self._patience.begin(claimed.epoch)
        self._claimed.set()
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each()

    def _wake(self) -> None:
        assert self._upkeep is not None and self._patience is not None and self._readers is not None
        self.deliverer.wake()
        self._readers.look()
        self._upkeep.look()
        self._patience.look()
        self._flow.look()

    async def until_applied(self, entry: int) -> None:
        """Return when this entry is applied."""
        if self.applied < entry:
            self.hurry()
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._awaiting.append((entry, reached))
            await reached

    def _tell_applied(self) -> None:
        for _, reached in [each for each in self._awaiting if each[0] <= self.applied and not each[1].done()]:
            reached.set_result(None)
        self._awaiting = [each for each in self._awaiting if each[0] > self.applied]

    def when_primary(self, function: Callable[[], None]) -> None:
        """Call it when the state is known: at once, or when the channel is replayed."""
        if self.is_primary:
            function()
        else:
            self._waiting.append(function)

    def when_caught_up(self, function: Callable[[], None]) -> None:
        """Whoever asks sees what was receipted before: first everything that is durable now is applied."""
        if self.is_primary and self.applied < self.channel.durable:
            self.hurry()
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            reached.add_done_callback(lambda done: None if done.cancelled() else function())
            self._awaiting.append((self.channel.durable, reached))
        else:
            self.when_primary(function)

    # --- what client managers say ------------------------------------------------------------------------------------

    def _hear(self, message: object) -> None:
        assert self._deliverer is not None
        if isinstance(message, CreditGranted):
            self.when_primary(partial(self._deliverer.grant, (message.session, message.receiver), message.events, message.bytes))
        elif isinstance(message, Holding):
            self._deliverer.expect((message.session, message.receiver), message.client_manager, message.held)
        elif isinstance(message, NotAttached):
            self._deliverer.expect_no_more((message.session, message.receiver))
        elif isinstance(message, LinkDown):
            self._deliverer.pause(message.session)
        elif isinstance(message, SessionGone):
            self.when_primary(partial(self._deliverer.give_up, message.session))
        elif isinstance(message, AdministrationAsked):
            self.when_primary(self.administration_asked)
        elif isinstance(message, WatermarksAsked):
            self.when_primary(partial(self._flow.tell, message.client_manager))
        elif isinstance(message, LinkCongested):
            self.when_primary(partial(self._deliverer.congested, message.session, message.is_congested))
        elif isinstance(message, Question):
            self.when_caught_up(partial(self._answer, message))
        elif isinstance(message, BrowseAsked):
            self.when_caught_up(partial(self._browse, message))

    def _answer(self, question: Question) -> None:
        assert self._readers is not None
        try:
            if question.action in READERS_QUESTIONS:
                self._readers.begin(question)
                self.hurry()  # what comes next must not linger if it is waited for now
                return
            value = administration.answer(self, question.action, question.arguments)
            self._bus.publish(question.client_manager, Reply(question.token, value, None))
        except HoldfastError as problem:
            self._bus.publish(question.client_manager, Reply(question.token, None, problem))

    @property
    def flow(self) -> Flow:
        return self._flow

    def _browse(self, asked: BrowseAsked) -> None:
        task = asyncio.create_task(self._show(asked))
        self._browsers.add(task)
        task.add_done_callback(self._browsers.discard)

    async def _show(self, asked: BrowseAsked) -> None:
        assert self._browsing is not None
        try:
            page = await self._browsing.page(asked)
            self._bus.publish(asked.client_manager, Reply(asked.token, page, None))
        except HoldfastError as problem:
            self._bus.publish(asked.client_manager, Reply(asked.token, None, problem))

    @property
    def replayed(self) -> int:
        """How many entries from before this start had to be applied again."""
        return self._tail - self._snapshot_at

    @property
    def upkeep(self) -> Upkeep:
        assert self._upkeep is not None
        return self._upkeep

    @property
    def deliverer(self) -> Deliverer:
        assert self._deliverer is not None
        return self._deliverer
