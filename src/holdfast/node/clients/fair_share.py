"""The fair share: batches go into the channel so that sessions that send little need not wait for those that flood (B22).

Who goes next is decided by a machine (`session.fair_shares`): beside a quiet session little of all floods is under way at a time,
and the next batch goes in with each receipt. The batches that wait are bounded by the windows of their sessions.

A batch for a topic with selectors that take long waits for them before it goes in (`node.messages.selector_answers`): its session
waits for that, and not everybody behind it in the channel.

Batches that wait here were promised to nobody: with a lost link they are dropped, and their client sends them again. A batch gets
its time of acceptance when it goes in: so these times go along a channel as the clock does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from holdfast.channel.channel import Appendable, Buffer, OnOutcome, Purpose, Receipt
from holdfast.destination.command import BatchCommand, accepted
from holdfast.errors import HoldfastError
from holdfast.node import supervision
from holdfast.node.clock import Clock
from holdfast.session.fair_shares import FairShares

WaitForSelectors = Callable[[BatchCommand, Buffer, Callable[[], None]], bool]
Submitted = tuple[BatchCommand, Buffer, OnOutcome]


class FairShare:
    def __init__(
        self, channel: Appendable, clock: Clock, wait_for_selectors: WaitForSelectors = lambda batch, payload, then: False
    ) -> None:
        """`wait_for_selectors` says whether a batch must wait for selectors, and calls back when they have answered."""
        self._wait_for_selectors = wait_for_selectors
        self._channel = channel
        self._clock = clock
        self._shares = FairShares[Submitted]()
        self._is_going_on = False

    def submit(self, session: str, batch: BatchCommand, payload: Buffer, told: OnOutcome) -> None:
        """Append a batch, now or when it is its turn; `told` hears what became of it."""
        submitted = batch, payload, told
        is_flood = self._shares.offer(session, submitted, len(payload), self._clock.steady_ms() / 1000)
        if is_flood is not None:
            self._append(session, submitted, is_flood)

    def drop(self, session: str) -> None:
        """Drop the batches that wait: the session's link is lost, and they were not accepted."""
        self._shares.drop(session)

    def _append(self, session: str, submitted: Submitted, is_flood: bool, is_asked: bool = False) -> None:
        """Append a batch, unless it must wait for selectors that were not asked yet."""
        batch, payload, told = submitted
        try:
            must_wait = not is_asked and self._wait_for_selectors(
                batch, payload, partial(self._selectors_answered, session, submitted)
            )
        except Exception as problem:  # a fault of ours: it costs this batch, and no other its turn
            supervision.report("asking selectors about a batch", problem)
            self._done(session, len(payload), is_flood, told, supervision.as_refusal(problem))
            return
        if must_wait:
            self._shares.stop(session, submitted, len(payload), is_flood)
            return
        command = accepted(batch, payload, self._clock.now_us())
        if is_flood:
            told = partial(self._learn, len(payload), self._clock.steady_ms(), told)
        done = partial(self._done, session, len(payload), is_flood, told)
        self._channel.submit(command, Purpose.EVENTS, done)

    def _learn(self, size: int, began_ms: int, told: OnOutcome, outcome: Receipt | HoldfastError) -> None:
        self._shares.learn(size, began_ms / 1000, self._clock.steady_ms() / 1000)
        told(outcome)

    def _done(self, session: str, size: int, is_flood: bool, told: OnOutcome, outcome: Receipt | HoldfastError) -> None:
        self._shares.receipted(session, size, is_flood)
        try:
            told(outcome)
        finally:
            if is_flood:
                self._go_on()

    def _selectors_answered(self, session: str, submitted: Submitted) -> None:
        if self._shares.resume(session, submitted):
            self._append(session, submitted, is_flood=True, is_asked=True)
            self._go_on()

    def _go_on(self) -> None:
        """Append what may go in now. A batch that fails at once makes room within this loop."""
        if self._is_going_on:
            return
        self._is_going_on = True
        try:
            now = self._clock.steady_ms() / 1000
            while (found := self._shares.next(now)) is not None:
                session, submitted, _ = found
                self._append(session, submitted, is_flood=True)
        finally:
            self._is_going_on = False
