"""Handing out what was handed over: slices as they come, the events of each one by one.

    delivered ─▶ buffer of slices ─▶ the slice in hand, and an index in it ─▶ next, next_run, async for
                                         │ used up: its credit may be granted again

A receiver that has ended hands out nothing more, and says why it ended. One that is paused, while its session is recovered,
hands out nothing until it goes on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self

from holdfast.client import checks
from holdfast.client.attaching import Attaching
from holdfast.client.gathering import Kind
from holdfast.client.granting import Granting
from holdfast.client.held import Held
from holdfast.client.received import Handed, ReceivedEvent
from holdfast.client.subscribing import PLAIN, Asked
from holdfast.errors import BatchDamaged, Closed, HoldfastError, TimedOut
from holdfast.event.batch import Batch
from holdfast.event.position import Ranges
from holdfast.wire.frame import Buffer, Slice

if TYPE_CHECKING:
    from holdfast.client.session import Session

NOT_OPEN = "the receiver is not open; use it inside `async with destination.receive() as incoming`"


class Handing(Attaching):
    def __init__(
        self,
        session: Session,
        destination: str,
        kind: Kind,
        subscription: str,
        credit: int,
        credit_bytes: int,
        timeout: float | None,
        asked: Asked = PLAIN,
    ) -> None:
        super().__init__(session, destination, kind, subscription, asked)
        self._timeout = checks.patience(timeout)
        self._credit = Granting(session, self.receiver, credit, credit_bytes)
        self._buffer: deque[Handed] = deque()
        self._handed: Handed | None = None
        self._index = 0
        self._count = 0
        self._end = Closed(NOT_OPEN)
        self._was_opened = False
        self._waiting: list[asyncio.Future[None]] = []
        self._paused: tuple[int, int] | None = None  # while it is recovered: where in the slice it was
        # What was taken by `next_run` and not handed on; verdicts that were given elsewhere are noted first.
        self.ahead: Callable[[], Ranges] = Ranges

    # --- to the program ----------------------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        if not self._was_opened:
            raise Closed(NOT_OPEN)
        return self

    async def __anext__(self) -> ReceivedEvent:
        index = self._index
        if index < self._count:
            self._index = index + 1
            return ReceivedEvent(self._handed, index)  # type: ignore[arg-type]  # there is one while the count says so
        try:
            await self._until_handed(self._timeout)
        except Closed:
            raise StopAsyncIteration from None
        return self._take()

    async def next(self, timeout: float | None = None) -> ReceivedEvent:
        """The next event. TimedOut when none comes in time (0: when none is here); Closed after the receiver was closed."""
        await self._until_handed(self._timeout if timeout is None else checks.patience(timeout))
        return self._take()

    async def next_run(self, timeout: float | None = None) -> tuple[Handed, range]:
        """At least one event, and with it the rest of its slice: the slice, and the indices in it."""
        await self._until_handed(self._timeout if timeout is None else checks.patience(timeout))
        assert self._handed is not None
        taken = range(self._index, self._count)
        self._index = self._count
        return self._handed, taken

    def _take(self) -> ReceivedEvent:
        handed, index = self._handed, self._index
        assert handed is not None
        self._index = index + 1
        return ReceivedEvent(handed, index)

    async def _until_handed(self, timeout: float | None) -> None:
        """Return when there is an event to take."""
        checks.same_loop(self._loop)
        deadline = None if timeout is None else self._loop.time() + timeout
        while self._end is None:
            if self._paused is None and (self._index < self._count or self._step()):
                return
            self._idle()
            future = self._loop.create_future()
            self._waiting.append(future)
            try:
                if deadline is None:
                    await future
                    continue
                async with asyncio.timeout_at(deadline):
                    await future
            except TimeoutError as problem:
                raise TimedOut(f"no event of {self.destination!r} came within {timeout:g} s") from problem
            finally:
                if future in self._waiting:
                    self._waiting.remove(future)
        raise self._end

    def _idle(self) -> None:
        """Nothing is here to be handed out: time to send what is noted."""
        self.flush()

    def _step(self) -> bool:
        """The slice is used up: go on to the next, and grant credit again when half of it is used."""
        done = self._handed
        if done is not None:
            self._handed = None
            credit = self._credit
            credit.used_events += done.events
            credit.used_bytes += done.size
            credit.grant_due()
        self._index = self._count = 0
        if not self._buffer:
            return False
        self._handed = self._buffer.popleft()
        self._count = self._handed.events
        return True

    # --- from the session --------------------------------------------------------------------------------------------

    def delivered(self, slices: Sequence[Slice], body: Buffer) -> None:
        if self._end is not None:
            return
        view, at = memoryview(body), 0
        try:
            for each in slices:
                batch = Batch(view[at : at + each.length])
                batch.check()
                if batch.count != each.events:
                    raise BatchDamaged(f"a slice of {each.events} events came with {batch.count}; it was mixed up on the way")
                at += each.length
                last = each.first + each.events - 1
                self._held.add(each.first, last)
                self._verdicts.handed(each.first, last, each.is_adjoining)
                found = (each.first, each.events, each.deliveries, each.length)
                said = (each.destination, each.deaths, each.accepted_us)
                self._buffer.append(Handed(self, batch, *found, self._generation, *said))
        except HoldfastError as problem:
            self.end(problem)
            self._session.detach_later(self.receiver)
        self._wake()

    def end(self, error: HoldfastError) -> None:
        """Nothing more will come, and verdicts will not be taken."""
        self._end = self._end or error
        self._discard(error)
        self._wake()

    def interrupt(self, error: HoldfastError) -> None:
        """Whoever waits for an event hears this; the receiver goes on."""
        for future in self._waiting:
            if not future.done():
                future.set_exception(type(error)(error.sentence))
        self._waiting.clear()

    def _gone(self, error: HoldfastError) -> None:
        """A verdict was refused because the server gave this receiver up."""
        self.end(error)

    def _discard(self, error: HoldfastError) -> None:
        self._generation += 1
        self._buffer.clear()
        self._handed = None
        self._index = self._count = 0
        if self._paused is not None:
            self._paused = 0, 0
        self._settling.discard(error)

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()

    # --- what lies here ----------------------------------------------------------------------------------------------

    def _unused(self) -> tuple[Handed, ...]:
        """Slices that are not used up."""
        return (*self._buffer, self._handed) if self._handed is not None else tuple(self._buffer)

    def _seen(self, unseen: Ranges) -> Held:
        """What is held and was looked at."""
        seen = self._held.copy()
        for handed in self._buffer:
            seen.remove(handed.first, handed.first + handed.events - 1)
        index, count = self._paused or (self._index, self._count)
        if self._handed is not None and index < count:
            seen.remove(self._handed.first + index, self._handed.first + count - 1)
        for first, last in unseen:
            seen.remove(first, last)
        return seen

    def pause(self) -> None:
        """Hand out nothing until `go_on_anew`."""
        if self._paused is None:
            self._paused = self._index, self._count
            self._index = self._count = 0

    def go_on_anew(self) -> None:
        """All receivers of the session hold nothing: let events come. After a failure, with what is still here."""
        if self._paused is not None:
            self._index, self._count = self._paused
            self._paused = None
            self._credit.grant_due()
            self._wake()
