"""Verdicts between here and the server: sent as Settle frames, kept until they are answered, sent again on a new link.

A confirm that is sent twice counts once. What a verdict was given on stays held until the verdict is applied, because until
then the server may ask, after a takeover or a lost link, who holds it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from holdfast.client.held import Held
from holdfast.client.verdicts import Settlement, Verdicts
from holdfast.destination.command import RANGES_MAX
from holdfast.errors import Detached, HoldfastError, LinkLost, Unreachable
from holdfast.wire.frame import Settle

if TYPE_CHECKING:
    from holdfast.client.session import Session

# Settle frames in flight; while so many are, notes gather into longer ranges.
SETTLES_MAX = 16


class Settling:
    def __init__(self, session: Session, receiver: int, held: Held, gone: Callable[[HoldfastError], None]) -> None:
        self.verdicts = Verdicts()
        self._session = session
        self._receiver = receiver
        self._held = held
        self._gone = gone
        self._unapplied: dict[int, Settlement] = {}
        self._queued: deque[Settlement] = deque()
        self._error: HoldfastError | None = None
        self._discarded: HoldfastError | None = None
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def _is_idle(self) -> bool:
        return not (self._unapplied or self._queued or self.verdicts.noted)

    def flush(self) -> None:
        """Send what is noted, unless there is no link, or enough in flight."""
        if self.verdicts.noted and self._session.is_ready and len(self._unapplied) < SETTLES_MAX:
            for settlement in self.verdicts.take():
                self.settle(settlement)
        self._send_queued()

    def settle(self, settlement: Settlement) -> None:
        """In as many frames as it takes: a command has room for so many ranges."""
        self._queued.extend(settlement._replace(ranges=ranges) for ranges in settlement.ranges.portions(RANGES_MAX))
        self._send_queued()

    def _send_queued(self) -> None:
        while self._queued and len(self._unapplied) < SETTLES_MAX:
            self._send(self._queued.popleft())

    def _send(self, settlement: Settlement) -> None:
        token, future = self._session.question()
        self._unapplied[token] = settlement
        future.add_done_callback(lambda done: self._answered(token, done))
        self._session.say(
            Settle(
                token, self._receiver, settlement.verdict, settlement.ranges.to_bytes(), self.verdicts.highest,
                settlement.delay_ms, settlement.is_counted, settlement.reason,
            )
        )  # fmt: skip

    def _answered(self, token: int, done: asyncio.Future[Any]) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, LinkLost) or token not in self._unapplied:
            return
        settlement = self._unapplied.pop(token)
        for first, last in settlement.ranges:
            self._held.remove(first, last)
        if isinstance(error, HoldfastError):
            self._error = self._error or error
            if isinstance(error, Detached):
                self._gone(error)
        self.flush()
        self._tell_waiting()

    def send_again(self) -> None:
        """On a new link: what was not answered on the one before."""
        unapplied, self._unapplied = self._unapplied, {}
        self._queued.extendleft(reversed(unapplied.values()))
        self._send_queued()

    def given_back(self) -> Iterator[tuple[int, int]]:
        """What was released, perhaps twice, and not answered: it may be with somebody else by now, whose claim counts."""
        for settlement in self._unapplied.values():
            if settlement.verdict == "release":
                yield from settlement.ranges

    def decided(self) -> Iterator[tuple[int, int]]:
        """Every position that has a verdict which is not applied yet; what was only noted is sent, or is next."""
        for settlement in self.verdicts.take():
            self.settle(settlement)
        for settlement in (*self._unapplied.values(), *self._queued):
            yield from settlement.ranges

    def discard(self, error: HoldfastError) -> None:
        """What was held is held no more; verdicts that were not applied will not be."""
        self._discarded = error
        if not self._is_idle:
            self._error = self._error or error
        self.verdicts.forget()
        self._unapplied.clear()
        self._queued.clear()
        self._held.clear()
        self._tell_waiting()

    def note_too_late(self) -> None:
        """A verdict on what was discarded."""
        self._error = self._error or self._discarded

    async def settled(self, timeout: float) -> None:
        """Wait until every verdict is applied or refused. LinkLost when that is not known in time."""
        loop = self._session.connection.loop
        deadline = loop.time() + timeout
        self.flush()
        while not self._is_idle:
            future = loop.create_future()
            self._waiting.append(future)
            try:
                async with asyncio.timeout_at(deadline):
                    await future
            except TimeoutError as problem:
                raise self._too_late(timeout) from problem

    def _too_late(self, timeout: float) -> HoldfastError:
        if self._unapplied:
            return LinkLost(f"the verdicts were sent and not answered within {timeout:g} s; they may have been applied")
        return Unreachable(f"the verdicts could not be sent within {timeout:g} s: {self._session.connection.problem_text}")

    def raise_error(self) -> None:
        """The first refusal since it was last asked for."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _tell_waiting(self) -> None:
        if self._is_idle:
            for future in self._waiting:
                if not future.done():
                    future.set_result(None)
            self._waiting.clear()
