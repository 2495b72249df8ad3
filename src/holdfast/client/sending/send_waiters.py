"""Callers that wait on a producer, and the error that each gets when its time is up.

    for a receipt    each in the builder that its event went into, with a deadline of its own; one alarm for all of them
    for room         pipelines, while too many full batches wait for the window
    for the end      until everything is receipted or refused

A caller whose time is up gets Unreachable or TimedOut when its event was never sent (it is withdrawn), LinkLost when it was.
Then the batch stays, and is sent again until the client is closed: it may still be accepted, once.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from holdfast.client.link.questions import Questions
from holdfast.client.link.waiters import Waiters
from holdfast.client.receipt import naming
from holdfast.client.sending.batch_builder import BatchBuilder, Waiter
from holdfast.client.sending.unfinished_batches import UnfinishedBatches
from holdfast.errors import HoldfastError, LinkLost, OutcomeUnknown, TimedOut, Unreachable

# Full batches that may wait for the window before a pipeline is held back.
WAITING_MAX = 8


class Alarm:
    """One alarm for many deadlines: with equal timeouts it is set once and stays, however many sends come and go."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rang: Callable[[float], None]) -> None:
        """`rang` is called with the time when the first deadline is over, and watches the next ones."""
        self._loop = loop
        self._rang = rang
        self._timer: asyncio.TimerHandle | None = None
        self._at = math.inf

    def watch(self, deadline: float) -> None:
        if deadline >= self._at:
            return
        self.cancel()
        self._at = deadline
        self._timer = self._loop.call_at(deadline, self._ring)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._at = None, math.inf

    def _ring(self) -> None:
        self._timer, self._at = None, math.inf
        self._rang(self._loop.time())


class SendWaiters:
    def __init__(self, session: Questions, unfinished: UnfinishedBatches) -> None:
        self.alarm = Alarm(session.connection.loop, self._rang)
        self.for_end = Waiters()
        self._for_room = Waiters()
        self._session = session
        self._loop = session.connection.loop
        self._unfinished = unfinished
        self._outbox = unfinished.outbox
        self._flow = unfinished.flow

    def has_room(self, destination: str) -> bool:
        """Whether a full batch for this destination may be added."""
        flow = self._flow
        return len(self._outbox.waiting) < WAITING_MAX and (not flow.reasons or flow.held_for(destination) < WAITING_MAX)

    async def room(self, destination: str, timeout: float) -> None:
        """Wait until a full batch may be added."""
        deadline = self._loop.time() + timeout
        while not self.has_room(destination):
            try:
                await self._for_room.wait(deadline)
            except TimeoutError as problem:
                raise self._too_late(destination, False, timeout) from problem

    async def flushed(self, timeout: float) -> None:
        """Wait until everything is receipted or refused; no longer than `timeout`, also while others go on sending."""
        deadline = self._loop.time() + timeout
        while not self._unfinished.is_empty:
            try:
                await self.for_end.wait(deadline)
            except TimeoutError as problem:
                late = self._too_late("", bool(self._outbox.in_flight), timeout)
                raise naming(late, self._unfinished.ids()) if isinstance(late, OutcomeUnknown) else late from problem

    def tell(self) -> None:
        """Wake the callers that can go on: there may be room, or an end."""
        if self._for_room and len(self._outbox.waiting) < WAITING_MAX:
            self._for_room.wake()
        if self.for_end and self._unfinished.is_empty:
            self.for_end.wake()

    def _rang(self, now: float) -> None:
        """Fail the waiters whose time is over, and set the alarm for the next."""
        for builder in list(self._unfinished):
            late = builder.expire(now)
            for waiter in late:
                if not waiter.future.done():
                    waiter.future.set_exception(self._too_late_of(builder, waiter))
            if late and not builder.was_sent and builder.is_empty:
                self._unfinished.drop(builder)
                self.tell()
            for waiter in builder.waiters:
                self.alarm.watch(waiter.deadline)

    def _too_late_of(self, builder: BatchBuilder, waiter: Waiter) -> HoldfastError:
        problem = self._too_late(builder.destination, builder.was_sent)
        return naming(problem, (builder.receipt(waiter.index).id,)) if isinstance(problem, OutcomeUnknown) else problem

    def _too_late(self, destination: str, was_sent: bool, timeout: float | None = None) -> HoldfastError:
        """Make the error of a caller whose time is up: it was sent, or what kept it from being sent."""
        within = "" if timeout is None else f" within {timeout:g} s"
        if was_sent:
            return LinkLost(f"sent, and no receipt came{within}; it may be stored already, or later, at most once")
        if not self._session.is_ready:
            return Unreachable(f"no link to a server{within}; nothing was sent: {self._session.connection.problem_text}")
        if self._flow.is_blocked(destination):
            return self._flow.refusal(destination, timeout)
        return TimedOut(
            f"the server takes events more slowly than they are sent, and this was not sent{within}; send it again later"
        )
