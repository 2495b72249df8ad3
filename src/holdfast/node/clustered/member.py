"""A member: one node's copy of a message manager (ADR 26).

    opened as a backup ──▶ follows its channel ── the primary is silent ──▶ claims ──▶ primary
            ▲                                                                            │ another's claim is applied
            └─────────────────────────── stopped, and opened anew ◀──────────────────────┘

`cluster.candidate` decides when to claim; the channel decides whose claim counts. A copy that cannot follow, because its channel
is away or what it needs was released, is stopped and opened anew, too: it begins with the newest snapshot.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from holdfast.bus.message import CopyState
from holdfast.cluster.candidate import Candidate
from holdfast.cluster.liveness import SILENCE_MS
from holdfast.destination import effect
from holdfast.errors import HoldfastError
from holdfast.node import supervision
from holdfast.node.clock import Clock
from holdfast.node.clustered.copy_state import CopyStates
from holdfast.node.clustered.producer_forgetting import ProducerForgetting
from holdfast.node.figures import Histogram
from holdfast.node.messages.message_manager import MessageManager
from holdfast.node.messages.start import Backup

log = logging.getLogger("holdfast.message_manager")

# A copy that cannot be opened is tried again after this.
OPEN_AGAIN_S = 1.0
# Seconds of takeovers: about one, by design.
TAKEOVER_BOUNDS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0)

Open = Callable[[Backup], Awaitable[MessageManager]]
# Called when the claim of this node is applied, with its epoch, before it says anything; and when it leads no longer.
Lead = Callable[[MessageManager, int], None]
Resign = Callable[[], Awaitable[None]]
# For how long a node, named by its start id, has been silent.
SilentMs = Callable[[str], int]


class Member:
    def __init__(
        self,
        name: str,
        whose: Backup,
        rank: int,
        open: Open,
        clock: Clock,
        lead: Lead | None = None,
        resign: Resign | None = None,
    ) -> None:
        """`open` opens the message manager as a backup. The member of rank 0 is the first to take over."""
        self.name = name
        self.candidate = Candidate(whose.start, rank, clock.steady_ms())
        self.manager: MessageManager | None = None  # None while it is being opened
        self.takeovers = 0  # claims of this node that were the first
        self.takeover_seconds = Histogram(TAKEOVER_BOUNDS)  # from the last heartbeat of the former primary on
        self._whose = whose
        self._open = open
        self._lead = lead
        self._resign = resign
        self._clock = clock
        self._led_since_ms = 0
        self._states = CopyStates()
        self._forgetting: ProducerForgetting | None = None  # while it leads
        self._resigns_to = ""  # the start of the node that is to claim
        self._claiming: asyncio.Task[None] | None = None
        self._is_over = False
        self._running = supervision.start(self._run(), f"{name}: a member")

    @property
    def is_primary(self) -> bool:
        return self.manager is not None and self.manager.is_primary

    def state(self) -> CopyState | None:
        """What the node tells of this copy in its heartbeats; None while it is being opened."""
        manager = self.manager
        if manager is None:
            return None
        return self._states.of(self.name, manager, self._resigns_to, self._clock.steady_ms())

    def resign_to(self, start: str) -> None:
        """As primary, invite another node to claim; "" to invite nobody any more."""
        self._resigns_to = start

    def open_anew(self, problem: HoldfastError) -> None:
        """Throw this copy away, for this reason: it begins again with a snapshot, and leads nothing until then."""
        if self.manager is not None:
            self.manager.give_up(problem)

    def look(self, silent_ms: SilentMs) -> None:
        """Claim, if it is time to. Asked with each heartbeat."""
        manager, now_ms = self.manager, self._clock.steady_ms()
        if manager is None or manager.failure is not None or self._claiming is not None:
            return
        self.candidate.followed(manager.applied, manager.channel.durable, now_ms)
        silence_ms = silent_ms(self.candidate.primary)
        if self.candidate.claim(silence_ms, now_ms) is not None:
            self._claiming = supervision.start(self._claim(manager, now_ms - silence_ms), f"{self.name}: taking over")
            self._claiming.add_done_callback(self._claim_ended)

    def give_up_lost(self, silent_ms: SilentMs, grace_ms: int) -> None:
        """Detach sessions whose client managers are silent for longer than the grace, and receivers that did not come back after
        the takeover. Forget producers of sessions that are long gone. Asked now and then."""
        manager = self.manager
        if manager is None or not manager.is_primary:
            return
        manager.deliverer.is_silent = lambda client_manager: silent_ms(client_manager) >= SILENCE_MS
        for session in manager.directory.sessions().values():
            if session.client_manager and silent_ms(session.client_manager) >= grace_ms:
                manager.deliverer.detach_lost(session.name, session.link)
        if self._clock.steady_ms() - self._led_since_ms >= grace_ms:
            manager.deliverer.stop_waiting()
        if self._forgetting is not None:
            self._forgetting.look(self._clock.steady_ms())

    async def _claim(self, manager: MessageManager, silent_since_ms: int) -> None:
        why = "since its primary resigns" if self.candidate.is_invited else "since its primary is silent"
        log.warning("message manager %s: node %s takes over, %s", self.name, self._whose.node, why)
        try:
            if await manager.take_over():
                self.takeovers += 1
                self.takeover_seconds.observe((self._clock.steady_ms() - silent_since_ms) / 1000)
        except HoldfastError as problem:
            log.warning("message manager %s: node %s cannot take over yet: %s", self.name, self._whose.node, problem)

    def _claim_ended(self, _: object) -> None:
        self._claiming = None

    async def _run(self) -> None:
        """Follow for ever. What stops or opens a copy may take the cancellation for its own: so it is remembered."""
        while not self._is_over:
            try:
                manager = await self._open(self._whose)
            except HoldfastError as problem:
                log.error("the copy of message manager %s cannot be opened, and is tried again: %s", self.name, problem)
                await asyncio.sleep(OPEN_AGAIN_S)
                continue
            try:
                if not self._is_over:
                    await self._follow(manager)
            finally:
                self.manager = None
                self._stop_forgetting()
                await self._stop_claiming()
                if self._resign is not None:
                    await self._resign()
                await manager.stop()

    async def _follow(self, manager: MessageManager) -> None:
        """Return when this copy is over."""
        directory = manager.directory
        self._note(effect.Claimed(directory.epoch, directory.node, directory.start), is_own=False)
        manager.epoch_began = self._began
        self.manager = manager
        await manager.ended()
        if manager.failure is not None:
            self.candidate.lost()
            await asyncio.sleep(OPEN_AGAIN_S)

    def _began(self, claimed: effect.Claimed, is_own: bool) -> None:
        """A claim was applied. One of this node from before this copy was opened is not its own: it was deposed since."""
        self._note(claimed, is_own)
        self._resigns_to = ""
        if self.manager is not None and is_own:
            self._led_since_ms = self._clock.steady_ms()
            self._stop_forgetting()
            self._forgetting = ProducerForgetting(self.manager)
            if self._lead is not None:
                self._lead(self.manager, claimed.epoch)

    def _note(self, claimed: effect.Claimed, is_own: bool) -> None:
        self.candidate.began(claimed.epoch, claimed.start, self._clock.steady_ms())
        if not is_own:
            self.candidate.lost()  # a claim of this node whose copy is gone: nobody leads by it

    def _stop_forgetting(self) -> None:
        if self._forgetting is not None:
            self._forgetting.stop()
            self._forgetting = None

    async def _stop_claiming(self) -> None:
        if self._claiming is not None:
            self._claiming.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._claiming

    async def stop(self) -> None:
        self._is_over = True
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
