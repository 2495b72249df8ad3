"""One joint transaction on its way: it asks its coordinator for the next steps, appends their commands, and tells it the answers.

    steps() ─▶ command ─▶ channel of a participant ─▶ applied ─▶ answered() ─▶ steps() …

    a participant is not prepared in time, or has no room   give up: an abort is decided
    a decision, a final that cannot be appended             again, after a pause; its participant may be away for long
    a participant that refuses                              the coordinator hears it
    an answer that comes when it is over                    nothing: a Prepare that was given up is answered so late

Its client hears the outcome when it is decided: an abort at once, a commit when it is carried out everywhere, or after a while,
because it will be. Nothing is forgotten if this process dies: the transaction is then in doubt, and another one ends it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.cluster.transaction_coordinator import Kind, Step, TransactionCoordinator
from holdfast.errors import Closed, HoldfastError, Refused
from holdfast.node.clients.joint.joint_transaction import JointOutcome, JointTransaction, OnJointOutcome, Preparation
from holdfast.node.clock import Clock

if TYPE_CHECKING:
    from holdfast.node.clients.manager_link import ManagerLink

log = logging.getLogger("holdfast.joint")

# Locks are held for less than 5 s while the first channel has its quorum: this long for those who do not answer, the rest for the
# decision and the finals.
PREPARE_MS = 2_500
# A commit is decided, and a participant is away: its client waits so long for it.
CARRIED_OUT_MS = 5_000
AGAIN_MS = 100
AGAIN_MS_MAX = 2_000


class JointRun:
    def __init__(
        self,
        joint: JointTransaction,
        managers: Mapping[str, ManagerLink],
        clock: Clock,
        preparations: Mapping[str, Preparation] | None,
        is_over: Callable[[], None],
    ) -> None:
        """`preparations`: what each participant prepares; None to recover a transaction that was found in doubt. `is_over` is
        called when nothing is left to be appended."""
        self._joint = joint
        self._managers = managers
        self._clock = clock
        self._preparations = preparations
        self._is_over = is_over
        self._coordinator = TransactionCoordinator(joint.participants, is_recovering=preparations is None)
        self._asked: set[Step] = set()  # steps that were appended and are not answered
        self._told: list[OnJointOutcome] = []
        self._results: dict[str, Any] = {}
        self._published_before = -1
        self._pause_ms = AGAIN_MS
        self._is_waited_for_long = False
        self._timers: set[asyncio.TimerHandle] = set()
        if preparations is not None:
            self._later(PREPARE_MS, self._too_late)

    def begin(self) -> None:
        self._go_on()

    def tell(self, told: OnJointOutcome) -> None:
        """Call `told` with the outcome, once."""
        self._told.append(told)
        self._tell_if_known()

    def stop(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    # --- steps -------------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        for step in self._coordinator.steps():
            if step not in self._asked:
                self._submit(step)
        if self._coordinator.is_over:
            self.stop()
            self._is_over()

    def _submit(self, step: Step) -> None:
        self._asked.add(step)
        target = self._managers[step.participant]
        prepared = self._preparations[step.participant] if self._preparations is not None else None
        token = target.next_token(partial(self._answered, step), partial(self._failed, step))
        made = self._joint.command(step, prepared, self._clock.now_ms(), target.subject, token)
        payload = prepared.payload if prepared is not None and step.kind is Kind.PREPARE else b""
        target.submit(made, token, payload)

    def _answered(self, step: Step, status: Any) -> None:
        self._asked.discard(step)
        self._pause_ms = AGAIN_MS
        if not self._coordinator.is_over:
            self._hear(step, status)

    def _failed(self, step: Step, problem: HoldfastError) -> None:
        self._asked.discard(step)
        if self._coordinator.is_over:
            return
        is_refused = isinstance(problem, Refused) and not isinstance(problem, Closed)
        if step.kind is Kind.PREPARE:
            self._coordinator.give_up(f"message manager '{step.participant}' refused it: {problem.sentence}")
            self._go_on()
        elif is_refused:
            if step.kind is Kind.FINAL_COMMIT:
                log.error("%s is committed, and '%s' refuses that: %s", self._joint.title, step.participant, problem)
            self._hear(step, None)
        else:
            self._later(self._pause_ms, self._go_on)
            self._pause_ms = min(2 * self._pause_ms, AGAIN_MS_MAX)

    def _hear(self, step: Step, status: Any) -> None:
        was_decided = self._coordinator.is_commit is not None
        if step.kind in (Kind.FINAL_COMMIT, Kind.FINAL_ABORT) and status is not None:
            self._results[step.participant] = status
        if step.kind is Kind.PREPARE:
            status = self._unless_repeated(step, status)
        self._coordinator.answered(step, status)
        if self._coordinator.is_commit and not was_decided:
            self._later(CARRIED_OUT_MS, self._wait_no_longer)
        self._tell_if_known()
        self._go_on()

    def _unless_repeated(self, step: Step, status: Any) -> Any:
        """A publication is aborted, if a participant has published its number before."""
        prepared = self._preparations[step.participant] if self._preparations is not None else None
        if prepared is None or not prepared.scope or len(status) < 2 or status[0] != "prepared":
            return status
        self._published_before = max(self._published_before, status[1])
        return status if prepared.number > status[1] else ("aborted", f"number {prepared.number} was published before")

    # --- time --------------------------------------------------------------------------------------------------------

    def _later(self, delay_ms: int, function: Callable[[], None]) -> None:
        def due() -> None:
            self._timers.discard(timer)
            function()

        timer = self._clock.call_later(delay_ms, due)
        self._timers.add(timer)

    def _too_late(self) -> None:
        missing = ", ".join(f"'{each}'" for each in self._coordinator.unprepared)
        self._coordinator.give_up(f"message manager {missing} did not answer within {PREPARE_MS / 1000:g} s")
        self._go_on()

    def _wait_no_longer(self) -> None:
        self._is_waited_for_long = True
        self._tell_if_known()

    # --- the outcome -------------------------------------------------------------------------------------------------

    def _tell_if_known(self) -> None:
        is_commit = self._coordinator.is_commit
        if is_commit is None or (is_commit and self._coordinator.results is None and not self._is_waited_for_long):
            return
        told, self._told = self._told, []
        for each in told:
            each(JointOutcome(is_commit, self._coordinator.reason, dict(self._results), self._published_before))
