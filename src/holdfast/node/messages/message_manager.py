"""The message manager: owns destinations. It follows its channel, applies every command, and, as primary, acts on the effects.

    channel ──read──▶ apply (directory) ──effects──▶ deliverer ──▶ bus ──▶ client managers
                          │
                          └── upkeep: snapshots, releasing what is finished, carrying stragglers

The rhythm is always: read, apply, then speak. Only durable entries are read, so everything it says is durable. It applies entries
from its start on (`start`), and acts on them from its own claim on: then it is primary. Messages of client managers beside the
channel come in through `bus_listener`.

A backup follows the same channel and says nothing (`voice`), until `take_over`. A primary that applies the claim of another is
deposed: it says nothing more, and is to be stopped. Its node opens a new one, as a backup.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from holdfast.bus.bus import Bus, message_manager_subject
from holdfast.bus.message import ReceiverGone, Reply
from holdfast.channel.channel import Buffer, Channel, Entry
from holdfast.cluster.copy_check import Digests
from holdfast.destination import command, effect
from holdfast.destination.state import selector_questions
from holdfast.errors import Closed, Damaged, HoldfastError
from holdfast.node import supervision
from holdfast.node.clock import Clock
from holdfast.node.delivering.deliverer import Deliverer
from holdfast.node.figures import Figures
from holdfast.node.logs.operator_log import OperatorLog
from holdfast.node.messages.answers import Surveys
from holdfast.node.messages.apply_waiters import ApplyWaiters
from holdfast.node.messages.assembly_timeout import AssemblyTimeout
from holdfast.node.messages.bus_listener import BusListener
from holdfast.node.messages.destination_flow import DestinationFlow
from holdfast.node.messages.removal_watch import RemovalWatch
from holdfast.node.messages.selector_answers import SelectorAnswers
from holdfast.node.messages.start import Backup, BeforeClaim, Start
from holdfast.node.messages.upkeep import Upkeep
from holdfast.node.messages.voice import Voice
from holdfast.node.reading.outcome_waiters import OutcomeWaiters
from holdfast.node.reading.place_readers import PlaceReaders
from holdfast.node.reading.shared_turn import SharedTurn
from holdfast.node.settings import NodeSettings

log = logging.getLogger("holdfast.message_manager")

# A long run is applied for so long before others have a turn.
TURN_US = 2_000
# Up to so many entries are applied within the call that made them durable; more are applied in turns with others.
AT_ONCE_ENTRIES = 64
AT_ONCE_BYTES = 1 << 20
# How long batches that nobody receives gather before they are applied: many at a time cost less than half as much.
APPLY_PAUSE_S = 0.02


class MessageManager:
    def __init__(
        self,
        start: Start,
        bus: Bus,
        clock: Clock,
        settings: NodeSettings,
        operator_log: OperatorLog,
        before_claim: BeforeClaim | None,
    ) -> None:
        """Follow the channel from a restored start on (`open`)."""
        bus = self._voice = Voice(bus, is_open=not start.is_backup)
        self.name = start.name
        self.operator_log = operator_log
        self.channel = channel = start.channel
        self.directory = directory = start.directory
        self.applied = start.snapshot_at
        self.is_primary = False
        self.failure: HoldfastError | None = None
        # Called when something was sent to `_ADMIN`, when a backlog came or went, and when a claim was applied (is it own?).
        self.administration_asked: Callable[[], None] = lambda: None
        self.backlogs_changed: Callable[[], None] = lambda: None
        self.epoch_began: Callable[[effect.Claimed, bool], None] = lambda claimed, is_own: None
        self.turn = SharedTurn()  # of all who read many heads
        self.flow = DestinationFlow(self.name, directory, bus, operator_log)
        self.figures = Figures()
        self.deliverer = Deliverer(directory, channel, bus, clock, self.turn, self.figures)
        self.upkeep = Upkeep(directory, channel, clock, settings, self.until_applied)
        self.surveys = Surveys()
        self.digests = Digests()  # of this copy, at each Check
        self._bus = bus
        self._clock = clock
        self._start = start
        self.assembly_timeout = AssemblyTimeout(start.name, directory, channel, bus, clock, settings)
        self._removal_watch = RemovalWatch(directory, channel, clock, self.until_applied)
        self._readers = PlaceReaders(directory, channel, bus, clock)
        self._outcomes = OutcomeWaiters(directory, channel, bus, clock)
        self._selector_answers = SelectorAnswers(self.turn)
        self._apply_waiters = ApplyWaiters()
        self._when_primary: list[Callable[[], None]] = []
        self._bus_listener = BusListener(self, self._readers, self._outcomes, bus)
        self._stop_listening: Callable[[], None] = lambda: None
        if not start.is_backup:
            self._listen()
        self._following = supervision.start(self._follow(before_claim), f"{self.name}: following its channel")

    # --- opening and stopping ----------------------------------------------------------------------------------------

    @classmethod
    async def open(
        cls,
        name: str,
        channel: Channel,
        bus: Bus,
        clock: Clock,
        settings: NodeSettings,
        operator_log: OperatorLog,
        before_claim: BeforeClaim | None = None,
        backup: Backup | None = None,
    ) -> MessageManager:
        """Restore the newest snapshot, and begin to follow the channel. It is primary later (`wait_until_primary`). A `backup` is
        not before `take_over`."""
        return cls(await Start.restore(name, channel, backup), bus, clock, settings, operator_log, before_claim)

    async def take_over(self) -> bool:
        """Claim to be primary. Whether it is: another backup may have been first, and this one stays one."""
        await self._start.take_over(self.until_applied)
        return self.is_primary

    def _listen(self) -> None:
        self._stop_listening = self._bus.listen(message_manager_subject(self.name), self._bus_listener.hear)

    async def wait_until_primary(self) -> None:
        """Return once the channel is replayed and this node's claim is applied; raise what kept it from that."""
        claimed = supervision.start(self._start.until_claimed(), f"{self.name}: waiting for its claim")
        await asyncio.wait({claimed, self._following}, return_when=asyncio.FIRST_COMPLETED)
        claimed.cancel()
        if self.failure is not None:
            raise self.failure

    async def ended(self) -> None:
        """Return when it cannot go on (`failure` says why) or is deposed, never otherwise."""
        await asyncio.wait({self._following})

    async def stop(self) -> None:
        self._stop_listening()
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)
        await self._selector_answers.stop()
        await self._bus_listener.stop()
        await self._readers.stop()
        await self._outcomes.stop()
        await self.deliverer.stop()
        self.assembly_timeout.stop()
        await self._removal_watch.stop()
        await self.upkeep.stop(self.is_primary and self.failure is None)
        self.is_primary = False

    # --- following ---------------------------------------------------------------------------------------------------

    async def _follow(self, before_claim: BeforeClaim | None) -> None:
        if self._start.is_backup:
            await self._follow_channel()
            return
        claiming = supervision.start(self._start.claim_when_replayed(before_claim), f"{self.name}: claiming", self.give_up)
        try:
            await self._follow_channel()
        finally:
            claiming.cancel()
            await asyncio.gather(claiming, return_exceptions=True)

    async def _follow_channel(self) -> None:
        try:
            async for entries in self.channel.read(self.applied + 1, self._take_at_once):
                await self._take_in_turns(entries)
                if self.applied >= self.channel.durable and self._may_pause(entries):
                    await self._apply_waiters.pause(APPLY_PAUSE_S)
        except Closed:
            raise
        except Exception as problem:
            self._fail(problem)

    def _fail(self, problem: Exception) -> None:
        """Apply nothing more: going on would let the state drift from the channel."""
        if isinstance(problem, HoldfastError):
            self.failure = self.failure or problem
            log.critical("message manager %s stops: %s", self.name, problem)
        else:
            what = f"entry {self.applied + 1} could not be applied: {problem!r}; report this with the journal"
            self.failure = self.failure or Damaged(what)
            log.critical("message manager %s stops", self.name, exc_info=problem)

    def give_up(self, problem: Exception) -> None:
        """Follow no further, for this reason."""
        self._fail(problem)
        self._following.cancel()

    async def _take_in_turns(self, entries: Sequence[Entry]) -> None:
        """Apply entries in turns with all other tasks: a long replay, a flood, or what gathered during a pause."""
        until_us = self._clock.now_us() + TURN_US
        for entry in entries:
            self._selector_answers.recall(self.directory, entry)
            asked = selector_questions.ahead_of(self.directory, entry.number, entry.command) if self._has_selectors else []
            if asked:
                for number, said in (await self.turn.take(selector_questions.answered(asked))).items():
                    self.directory.answers.setdefault(number, {}).update(said)
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
        """Wake waiters and deliver after a run. The run stays applied, even if that fails."""
        try:
            if self._apply_waiters.are_waiting:
                self._apply_waiters.applied(self.applied)
            if self.is_primary:
                self.deliverer.wake()
                self._readers.answer_waiting()
                if self._outcomes.are_waiting:
                    self._outcomes.answer_waiting()
                self.upkeep.begin_if_due()
                self.assembly_timeout.watch()
                self.flow.tell_changes()
                if self._removal_watch.is_watching:
                    self._removal_watch.check()
        except Exception as problem:
            supervision.report(f"{self.name}: delivering after entry {self.applied}", problem)

    def _take_at_once(self, entries: Sequence[Entry]) -> bool:
        """Apply entries within the call that made them durable, if somebody waits for them and they are few; whether it was done.

        Messages published before them come first, such as what a receiver holds before it attaches: so only on a quiet bus."""
        if not self.is_primary or not self._bus.is_quiet or self._may_pause(entries):
            return False
        if len(entries) > AT_ONCE_ENTRIES or sum(len(entry.command) for entry in entries) > AT_ONCE_BYTES:
            return False
        if self._has_selectors and self._must_ask_selectors(entries):
            return False
        self._take(entries)
        return True

    def _must_ask_selectors(self, entries: Sequence[Entry]) -> bool:
        """Whether selectors must be asked about these entries, which takes more than a moment."""
        for entry in entries:
            self._selector_answers.recall(self.directory, entry)
        return any(selector_questions.ahead_of(self.directory, entry.number, entry.command) for entry in entries)

    def ask_first(self, batch: command.BatchCommand, payload: Buffer, then: Callable[[], None]) -> bool:
        """Whether selectors are asked about a batch before it may be appended; `then` is called when they were."""
        return self._has_selectors and self._selector_answers.ask(self.directory, batch, payload, then)

    def _may_pause(self, entries: Sequence[Entry]) -> bool:
        """Whether the next entries may gather, and be applied together: nobody receives or reads, nobody waits for an answer, and
        no destination has a high water that could be passed unseen."""
        if not self.is_primary or self.deliverer.has_receivers or self._readers.are_waiting:
            return False
        if self._apply_waiters.are_waiting or self.flow.is_watching:
            return False
        return all(command.kind_of(entry.command) == command.BatchCommand.KIND for entry in entries)

    # --- acting on what is applied -----------------------------------------------------------------------------------

    @property
    def _has_selectors(self) -> bool:
        """Applying a command may ask selectors: expensive ones are then asked ahead, in turns."""
        return self.directory.catalog.has_selectors

    def _apply(self, entry: Entry) -> None:
        effects = self.directory.apply(entry.number, entry.command)
        self.applied = entry.number
        if not self.is_primary and entry.number >= self._start.tail:
            self._start.applied(entry, effects)
        for each in effects:
            try:
                self._act(each)
            except Exception as problem:  # the state is right; the other effects are acted on
                if isinstance(each, effect.Claimed):
                    raise
                supervision.report(f"{self.name}: {type(each).__name__} of entry {entry.number}", problem)

    def _act(self, each: effect.Effect) -> None:
        if type(each) is effect.Placed:  # most effects by far
            if self.is_primary:
                self.deliverer.placed(each)
                if self.flow.is_watching:
                    self.flow.touched(each.backlog[0])
                if self._removal_watch.is_watching:
                    self._removal_watch.touched(each.backlog)
            return
        if isinstance(each, effect.Answer):
            if each.origin:
                self._bus.publish(each.origin, Reply(each.token, each.value, each.error))
        elif isinstance(each, effect.Claimed):
            is_own = self._start.is_own(each, self.applied)
            self.epoch_began(each, is_own)
            if is_own:
                self._become_primary(each)
            elif self.is_primary:
                self._step_down(each)
        elif isinstance(each, effect.Attached) and not self.is_primary:
            self.deliverer.came_early((each.session, each.receiver))
        elif isinstance(each, effect.Returned) and not self.is_primary:
            self.deliverer.came_back_early(each)
        elif isinstance(each, effect.Checked):
            self.digests.note(each.entry, each.digest)
        elif isinstance(each, effect.WindowShortened):
            if self.is_primary:
                self.operator_log.note(each)
        elif self.is_primary:
            if isinstance(each, effect.DetachedReceiver) and each.reason:
                self._tell_detached(each)
            elif isinstance(each, effect.Died):
                self.figures.died(each.code, each.events)
            self.operator_log.note(each)
            self.deliverer.act(each)
            self._note_flow(each)
            if self._outcomes.are_waiting:
                self._outcomes.touched(each)

    def _note_flow(self, each: effect.Effect) -> None:
        if isinstance(each, effect.Finished):
            if self.flow.is_watching:
                self.flow.touched(each.backlog[0])
        elif isinstance(each, effect.BacklogCreated | effect.BacklogDeleted):
            self.flow.configured(each.backlog[0])
            self.backlogs_changed()
        elif isinstance(each, effect.Configured):
            self.flow.configured(each.name)

    def _tell_detached(self, gone: effect.DetachedReceiver) -> None:
        route = self.deliverer.route((gone.session, gone.receiver))
        if route:
            self._bus.publish(route, ReceiverGone(gone.session, gone.receiver, gone.code, gone.reason))

    def _step_down(self, claimed: effect.Claimed) -> None:
        """Another node is primary from this entry on: say nothing more, and follow no further."""
        log.warning("message manager %s: %s is primary now, with epoch %d", self.name, claimed.node, claimed.epoch)
        self._stop_listening()
        self._voice.is_open = False
        self.is_primary = False
        self._following.cancel()

    def _become_primary(self, claimed: effect.Claimed) -> None:
        if self._start.is_backup:
            self._voice.is_open = True
            self._listen()
        self.is_primary = True
        self.flow.begin()
        self.deliverer.begin(claimed.epoch, self._start.early(), self._start.is_backup)
        self.upkeep.begin(claimed.epoch, self._start.snapshot_at)
        self.assembly_timeout.begin(claimed.epoch)
        self._removal_watch.begin(claimed.epoch)
        self._start.claimed.set()
        waiting, self._when_primary = self._when_primary, []
        for each in waiting:
            supervision.guarded(each, "a call that waited for this node to be primary")()

    # --- waiting for it ----------------------------------------------------------------------------------------------

    def hurry(self) -> None:
        """End a pause: somebody waits for the next entries to be applied."""
        self._apply_waiters.hurry()

    async def until_applied(self, entry: int) -> None:
        """Return when this entry is applied."""
        if self.applied < entry:
            await self._apply_waiters.add(entry)

    def when_primary(self, function: Callable[[], None]) -> None:
        """Call a function when this node is primary: now, or when the channel is replayed."""
        if self.is_primary:
            function()
        else:
            self._when_primary.append(function)

    def when_caught_up(self, function: Callable[[], None], known: int = 0) -> None:
        """Call a function when everything is applied that is durable now, here or, up to `known`, at a process that is ahead."""
        durable = max(self.channel.durable, known)
        if self.is_primary and self.applied < durable:
            call = supervision.guarded(function, "a call that waited for entries to be applied")
            self._apply_waiters.add(durable).add_done_callback(lambda done: None if done.cancelled() else call())
        else:
            self.when_primary(function)

    @property
    def replayed(self) -> int:
        """How many entries from before this start had to be applied again."""
        return self._start.replayed
