"""The joint transactions that a client manager drives: those of its clients, and those that it finds in doubt (ADR 25).

    CommitAll, Publish over several channels ─▶ commit ─▶ JointRun ─▶ outcome ─▶ the client
    TransactionsInDoubt of a primary ─────────▶ recover ─▶ JointRun

A transaction that is on its way here is not recovered here; a client that asks again waits for the same outcome. Another client
manager may be at work on the same one: the first decision in the channel of the first participant counts for both. Where there
are many, each waits a while of its own before it recovers one, and leaves it if it is not announced any more: so few of them do
the work.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from holdfast.bus.bus import CLIENT_MANAGERS, Bus
from holdfast.bus.message import TransactionsInDoubt
from holdfast.node.clients.joint.joint_run import JointRun
from holdfast.node.clients.joint.joint_transaction import JointOutcome, JointTransaction, OnJointOutcome, Preparation
from holdfast.node.clock import Clock

if TYPE_CHECKING:
    from holdfast.node.clients.manager_link import ManagerLink

log = logging.getLogger("holdfast.joint")

# The whiles of all client managers are spread over this: together with the 3.5 s until all have heard of a transaction it is less
# than the 5 s in which locks are released.
SPREAD_MS = 750


class JointCommits:
    def __init__(self, managers: Mapping[str, ManagerLink], bus: Bus, clock: Clock, start: str = "") -> None:
        """`start` names this client manager among those of a cluster; "" where it is the only one."""
        self._managers = managers
        self._clock = clock
        self._start = start
        self._announced: dict[str, set[JointTransaction]] = {}  # asked, but never iterated; by message manager, what it said last
        self._timers: dict[JointTransaction, asyncio.TimerHandle] = {}
        self._running: dict[JointTransaction, JointRun] = {}
        self._stop_listening = bus.listen(CLIENT_MANAGERS, self._hear)

    def commit(self, joint: JointTransaction, preparations: Mapping[str, Preparation], told: OnJointOutcome) -> None:
        """Commit a transaction; `told` hears what became of it, once."""
        self._run(joint, preparations).tell(told)

    def _run(self, joint: JointTransaction, preparations: Mapping[str, Preparation] | None) -> JointRun:
        run = self._running.get(joint)
        if run is None:
            shared = (self._managers, self._clock, preparations)
            run = self._running[joint] = JointRun(joint, *shared, partial(self._ended, joint))
            run.begin()
        return run

    def _ended(self, joint: JointTransaction) -> None:
        del self._running[joint]

    # --- recovery ----------------------------------------------------------------------------------------------------

    def _hear(self, message: object) -> None:
        if isinstance(message, TransactionsInDoubt):
            found = [
                JointTransaction(tuple(participants), tuple((session, assembly) for session, assembly in keys))
                for participants, keys in message.transactions
            ]
            self._announced[message.manager] = set(found)
            for joint in found:
                if joint not in self._running and joint not in self._timers:
                    self._timers[joint] = self._clock.call_later(self._wait_ms(joint), partial(self._recover, joint))

    def _wait_ms(self, joint: JointTransaction) -> int:
        return zlib.crc32(f"{self._start} {joint.title}".encode()) % SPREAD_MS if self._start else 0

    def _recover(self, joint: JointTransaction) -> None:
        del self._timers[joint]
        is_announced = any(joint in each for each in self._announced.values())
        if is_announced and joint not in self._running and all(each in self._managers for each in joint.participants):
            self._run(joint, None).tell(partial(self._log, joint))

    @staticmethod
    def _log(joint: JointTransaction, outcome: JointOutcome) -> None:
        what = "is committed" if outcome.is_commit else f"is aborted: {outcome.reason}"
        log.warning("%s, was in doubt, and %s", joint.title, what)

    def stop(self) -> None:
        self._stop_listening()
        for timer in self._timers.values():
            timer.cancel()
        for run in self._running.values():
            run.stop()
