"""The timeout of assemblies: one that its session has forgotten must not keep the channel's space for ever.

The parts of an open transaction, or of a large event on its way, stay in place and pin everything behind them (rules 8 and 10).
The primary abandons an assembly to which nothing came for `assembly_idle_ms`, or for SHORT_MS while space is short: its session
gets TransactionAborted when it commits. Time is measured here, never in a machine (rule 13): an `Abandon` with the primary's
epoch is written.

A stage has no session that could end it, and its publisher may need a while to come back: it has `stage_idle_ms`, and
STAGE_SHORT_MS while space is short. After a restart the time begins anew.

What is prepared at several message managers is nobody's to abandon: it is announced (`doubt_watch`).
"""

from __future__ import annotations

import asyncio
import logging

from holdfast.bus.bus import Bus
from holdfast.channel.channel import Channel, Purpose
from holdfast.destination import command
from holdfast.destination.directory import Directory
from holdfast.destination.state.assembly import is_stage
from holdfast.errors import HoldfastError
from holdfast.node.clock import Clock
from holdfast.node.messages.doubt_watch import DoubtWatch
from holdfast.node.settings import NodeSettings

log = logging.getLogger("holdfast.assembly_timeout")

CHECK_MS = 1_000
# While producers are held back for want of space, an idle assembly keeps its space for no longer than this.
SHORT_MS = 10_000
# Long enough for a program that was killed to be started again, and to publish its stage.
STAGE_SHORT_MS = 60_000

Name = tuple[str, str]  # session, assembly


class AssemblyTimeout:
    def __init__(self, name: str, directory: Directory, channel: Channel, bus: Bus, clock: Clock, settings: NodeSettings) -> None:
        self._doubts = DoubtWatch(name, directory, bus, clock)
        self._directory = directory
        self._channel = channel
        self._clock = clock
        self.use(settings)
        self._epoch = 0
        self._seen: dict[Name, tuple[int, int]] = {}  # how many parts there were when, in ms
        self._timer: asyncio.TimerHandle | None = None

    def use(self, settings: NodeSettings) -> None:
        self._idle_ms = settings.assembly_idle_ms
        self._stage_idle_ms = settings.stage_idle_ms

    def begin(self, epoch: int) -> None:
        self._epoch = epoch
        self.watch()

    def watch(self) -> None:
        """Check every second from now on, while there are assemblies."""
        self._doubts.watch()
        if self._timer is None and any(True for _ in self._directory.assemblies):
            self._timer = self._clock.call_later(CHECK_MS, self._check)

    def _check(self) -> None:
        self._timer = None
        now = self._clock.steady_ms()
        seen, self._seen = self._seen, {}
        for assembly in self._directory.assemblies:
            name = (assembly.session, assembly.name)
            known = seen.get(name, (0, now))
            self._seen[name] = known if known[0] == assembly.count else (assembly.count, now)
            allowed_ms = self._allowed_ms(assembly.session)
            if now - self._seen[name][1] >= allowed_ms and not self._is_prepared(name):
                self._abandon(name, allowed_ms)
        self.watch()

    def _is_prepared(self, name: Name) -> bool:
        transactions = self._directory.transactions
        return name in transactions.open or name in transactions.stages

    def _allowed_ms(self, session: str) -> int:
        idle_ms, short_ms = (self._stage_idle_ms, STAGE_SHORT_MS) if is_stage(session) else (self._idle_ms, SHORT_MS)
        return min(idle_ms, short_ms) if self._channel.pressure.is_short else idle_ms

    def _abandon(self, name: Name, idle_ms: int) -> None:
        """Abandon an assembly. Without room for that, the next check tries again."""
        kind = "stage %s of user %s" if is_stage(name[0]) else "assembly %s of session %s"
        what = kind % (name[1], name[0].lstrip("/") or "-")
        log.warning("%s is abandoned: nothing came for %d s", what, idle_ms // 1000)
        try:
            done = self._channel.append(command.encode(command.Abandon(*name, self._epoch)), Purpose.UPKEEP)
        except HoldfastError as problem:
            log.error("%s cannot be abandoned yet: %s", what, problem)
            return
        done.add_done_callback(lambda future: future.cancelled() or future.exception())

    def stop(self) -> None:
        self._doubts.stop()
        if self._timer is not None:
            self._timer.cancel()
