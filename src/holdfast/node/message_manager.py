"""The message manager: owns destinations. It follows its channel, applies every command, and, as primary, acts on the effects.

    channel ──read──▶ apply (directory) ──effects──▶ deliverer ──▶ bus ──▶ client managers
                          │
                          └── upkeep: snapshots, releasing what is finished, carrying stragglers

The rhythm is always: read, apply, then speak; nothing is said that is not durable, because nothing that is not durable is read.
It follows from its start on (`starting`), and acts from its own claim on: then it is primary. What client managers say beside the
channel comes in through `hearing`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from holdfast.bus.bus import Bus
from holdfast.bus.message import ReceiverGone, Reply
from holdfast.channel.channel import Channel, Entry
from holdfast.destination import command, effect
from holdfast.errors import Closed, Damaged, HoldfastError
from holdfast.node.clock import Clock
from holdfast.node.deliverer import Deliverer
from holdfast.node.flow import Flow
from holdfast.node.hearing import Hearing
from holdfast.node.lingering import Lingering
from holdfast.node.patience import Patience
from holdfast.node.settings import NodeSettings
from holdfast.node.starting import BeforeClaim, Starting
from holdfast.node.upkeep import Upkeep

log = logging.getLogger("holdfast.message_manager")

# So long others wait for their turn while a long run is applied; it is looked at after every few entries.
TURN_US = 2_000
TURN_ENTRIES = 8
# How long batches that nobody receives are left to gather before they are applied: many at a time cost less than half as much.
LINGER_S = 0.02


def subject_of(name: str) -> str:
    return f"message_manager.{name}"


class MessageManager:
    def __init__(self, name: str, channel: Channel, bus: Bus, clock: Clock, settings: NodeSettings) -> None:
        self.name = name
        self.channel = channel
        self._starting = Starting(name, channel)
        self.directory = self._starting.directory
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
        self._hearing: Hearing | None = None
        self._flow = Flow(self.directory, bus)
        self._awaiting: list[tuple[int, asyncio.Future[None]]] = []
        self._waiting: list[Callable[[], None]] = []
        self._lingering = Lingering()
        self._following: asyncio.Task[None] | None = None
        self._stop_listening: Callable[[], None] = lambda: None

    # --- starting and stopping ---------------------------------------------------------------------------------------

    async def start(self, before_claim: BeforeClaim | None = None) -> None:
        """Begin to follow the channel. `before_claim` may still append what was recorded before this node existed (A7)."""
        await self._starting.restore()
        self.directory = self._starting.directory
        self.applied = self._starting.snapshot_at
        self._flow = Flow(self.directory, self._bus)
        self._deliverer = Deliverer(self.directory, self.channel, self._bus, self._clock, self._settings)
        self._upkeep = Upkeep(self.directory, self.channel, self._clock, self._settings, self.until_applied)
        self._patience = Patience(self.directory, self.channel, self._clock, self._settings)
        self._hearing = Hearing(self, self._bus, self._clock)
        self._stop_listening = self._bus.listen(subject_of(self.name), self._hearing.hear)
        self._following = asyncio.create_task(self._follow(before_claim), name=f"{self.name} follows its channel")

    async def wait_until_primary(self) -> None:
        """Return once the channel is replayed and this node's claim is applied; raise what kept it from that."""
        assert self._following is not None
        claimed = asyncio.create_task(self._starting.claimed.wait())
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
        if self._hearing is not None:
            await self._hearing.stop()
        if self._deliverer is not None:
            await self._deliverer.stop()
        if self._patience is not None:
            self._patience.stop()
        if self._upkeep is not None:
            await self._upkeep.stop(self.is_primary and self.failure is None)
        self.is_primary = False

    # --- following ---------------------------------------------------------------------------------------------------

    async def _follow(self, before_claim: BeforeClaim | None) -> None:
        claiming = asyncio.create_task(self._starting.claim_when_replayed(before_claim))
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
        for begin in range(0, len(entries), TURN_ENTRIES):
            for entry in entries[begin : begin + TURN_ENTRIES]:
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
        assert self._hearing is not None
        if not self.is_primary or self.deliverer.has_receivers or self._hearing.readers.are_waiting:
            return False
        if self._awaiting or self._flow.is_watching:
            return False
        return all(command.kind_of(entry.command) == command.BatchCommand.KIND for entry in entries)

    # --- acting on what is applied -----------------------------------------------------------------------------------

    def _apply(self, entry: Entry) -> None:
        effects = self.directory.apply(entry.number, entry.command)
        self.applied = entry.number
        if not self.is_primary and entry.number >= self._starting.tail:
            self._starting.applied(entry, effects)
        for each in effects:
            self._act(each)

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
        if not self._starting.is_own(claimed, self.applied):
            return
        self.is_primary = True
        self._flow.begin()
        self._deliverer.begin(claimed.epoch, self._starting.early())
        self._upkeep.begin(claimed.epoch, self._starting.snapshot_at)
        self._patience.begin(claimed.epoch)
        self._starting.claimed.set()
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each()

    def _wake(self) -> None:
        assert self._upkeep is not None and self._patience is not None and self._hearing is not None
        self.deliverer.wake()
        self._hearing.readers.look()
        self._upkeep.look()
        self._patience.look()
        self._flow.look()

    # --- whoever waits for it ----------------------------------------------------------------------------------------

    def hurry(self) -> None:
        """Somebody waits for what is applied next."""
        self._lingering.hurry()

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

    # --- its parts ---------------------------------------------------------------------------------------------------

    @property
    def flow(self) -> Flow:
        return self._flow

    @property
    def replayed(self) -> int:
        """How many entries from before this start had to be applied again."""
        return self._starting.replayed

    @property
    def upkeep(self) -> Upkeep:
        assert self._upkeep is not None
        return self._upkeep

    @property
    def deliverer(self) -> Deliverer:
        assert self._deliverer is not None
        return self._deliverer
