"""The recipient's side of a receiver: what was handed over and not looked at yet, and the verdicts on what was.

    delivered ─▶ buffer of slices ─▶ next, async for ─▶ the application ─▶ confirm, release, reject ─▶ verdicts ─▶ applied
                  │ credit is granted again as slices are used up                                        held until here

After a lost link the receiver attaches again and says what it holds; verdicts that were not answered are sent again. If the
server gave the session up meanwhile, what was held has gone to others: it is discarded here, and whoever still gives a verdict
on it hears Detached.

Leaving waits until the verdicts are applied. What the application had looked at and left undecided is released as delivered
once more; what it never saw is released as if it had not been delivered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from holdfast.client import checks
from holdfast.client.attaching import Attaching
from holdfast.client.gathering import Kind
from holdfast.client.held import Held
from holdfast.client.received import Handed, ReceivedEvent
from holdfast.client.subscribing import PLAIN, Asked
from holdfast.client.verdicts import Settlement
from holdfast.errors import (
    BatchDamaged,
    Closed,
    Detached,
    HoldfastError,
    LinkLost,
    OutcomeUnknown,
    Refused,
    SubscriptionInUse,
    TimedOut,
)
from holdfast.event.batch import Batch
from holdfast.event.position import Ranges
from holdfast.wire.frame import Buffer, Credit, DetachReceiver, Slice

if TYPE_CHECKING:
    from holdfast.client.session import Session

# Events on their way to a recipient: enough that a fast one never waits for a round trip (four times 1,000 was measured at 2.8x).
CREDIT_EVENTS = 4_000
CREDIT_BYTES = 8 << 20
NOT_OPEN = "the receiver is not open; use it inside `async with destination.receive() as incoming`"


class Incoming(Attaching):
    """Events as they come in: `async with destination.receive() as incoming: async for event in incoming: …`."""

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
        self._credit = checks.credit(credit, credit_bytes)
        self._used_events = 0
        self._used_bytes = 0
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

    # --- opening and leaving -----------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Attach; attaching again after a lost link changes nothing, so it is simply repeated."""
        if self._was_opened:
            raise Closed("a receiver is opened once; receive again for another")
        deadline = self._session.connection.deadline(self._session.connection.timeout)
        while True:
            try:
                await self._session.ask_again(self._attach, deadline - self._loop.time())
                break
            except OutcomeUnknown:
                self._session.detach_later(self.receiver)
                raise
            except SubscriptionInUse as problem:
                await self._until_given_up(problem, deadline)
        self._was_opened, self._end = True, None
        self._session.recipients[self.receiver] = self
        self._session.say(Credit(self.receiver, *self._credit))
        return self

    async def close(self, timeout: float | None = None) -> None:
        """Send the verdicts, wait until they are applied, give back the rest."""
        if self._session.recipients.get(self.receiver) is not self:
            return
        allowed = checks.seconds(timeout, self._session.connection.timeout)
        was_over, is_detached = self._end is not None, False
        unseen = self.ahead()
        if not was_over:
            self.finish(is_done=True)
        self._end = self._end or Closed("the receiver was closed by this program; receive again to go on")
        self._wake()
        try:
            if not was_over:
                await self._settling.settled(allowed)
                self._release(self._seen(unseen))
                await self._settling.settled(allowed)
                await self._session.ask(lambda token: DetachReceiver(token, self.receiver), allowed)
                is_detached = True
            self._settling.raise_error()
        finally:
            self._generation += 1  # a verdict that comes now is too late
            self._session.recipients.pop(self.receiver, None)
            if not (was_over or is_detached):
                self._session.detach_later(self.receiver)

    def finish(self, *, is_done: bool) -> None:
        """The program leaves; `is_done`: without an error. Whoever decides on its own what that means for events does so here."""

    def _release(self, seen: Held) -> None:
        if seen:
            self._settling.settle(Settlement("release", seen.ranges()))

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

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None and self._end is None:
            self.finish(is_done=False)
        try:
            await self.close()
        except HoldfastError:
            if error is None:
                raise

    # --- receiving ---------------------------------------------------------------------------------------------------

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
            self._used_events += done.events
            self._used_bytes += done.size
            self._grant()
        self._index = self._count = 0
        if not self._buffer:
            return False
        self._handed = self._buffer.popleft()
        self._count = self._handed.events
        return True

    def _grant(self) -> None:
        """What is used while there is no link is granted by `resume`, or when the session goes on."""
        is_due = 2 * self._used_events >= self._credit[0] or 2 * self._used_bytes >= self._credit[1]
        if is_due and self._session.is_ready and self._paused is None:
            self._session.say(Credit(self.receiver, self._used_events, self._used_bytes))
            self._used_events = self._used_bytes = 0

    # --- what the session tells --------------------------------------------------------------------------------------

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

    def give_up(self) -> None:
        """The session was not resumed: what was held has gone to others."""
        self._is_recovered = False
        self._discard(
            Detached(f"the link was lost for so long that what was held of {self.destination!r} went to others; discard it")
        )

    async def resume(self, deadline: float) -> None:
        """Attach again on a new link, with what is held, and credit for what may come.

        Verdicts that were not answered go first: what was released is then nobody's when it is asked who holds what.
        """
        if self._end is not None and not isinstance(self._end, Closed):
            return
        self._settling.send_again()
        try:
            await self._attach_again(deadline)
        except LinkLost:
            raise
        except HoldfastError as problem:
            self.end(problem)
            return
        waiting = (*self._buffer, self._handed) if self._handed is not None else tuple(self._buffer)
        self._used_events = max(0, self._credit[0] - sum(each.events for each in waiting))
        self._used_bytes = max(0, self._credit[1] - sum(each.size for each in waiting))
        if self._paused is None:
            self._session.say(Credit(self.receiver, self._used_events, self._used_bytes))
            self._used_events = self._used_bytes = 0

    def go_on(self) -> None:
        """The whole session is resumed: what was noted and used up meanwhile may be said."""
        self._grant()
        self.flush()

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

    # --- recovering: see `recovery` ----------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return not self._has_ended()

    def _has_ended(self) -> bool:
        return self._end is not None

    def pause(self) -> None:
        """Hand out nothing until `go_on_anew`."""
        if self._paused is None:
            self._paused = self._index, self._count
            self._index = self._count = 0

    async def give_back(self, deadline: float) -> None:
        """Release what was looked at and is undecided, and wait until that, and every verdict, is applied."""
        seen = self._seen(self.ahead())
        for first, last in self._settling.decided():
            seen.remove(first, last)
        self._release(seen)
        await self._settling.settled(max(0.0, deadline - self._loop.time()))

    async def attach_anew(self, deadline: float) -> None:
        """Say that nothing is held: what was handed over and not looked at goes back too, and no more comes without credit."""
        if self._has_ended():
            return
        await self._session.ask_again(
            lambda token: msgspec.structs.replace(self._attach(token), held=Ranges().to_bytes()), deadline - self._loop.time()
        )
        if self._has_ended():  # closed meanwhile, by the program or the server: nobody will receive here
            self._session.detach_later(self.receiver)
            return
        self._is_recovered = True
        self._discard(Refused("the session was recovered before this verdict; the event is delivered again"))
        self._used_events, self._used_bytes = self._credit

    def go_on_anew(self) -> None:
        """All receivers of the session hold nothing: let events come. After a failure, with what is still here."""
        if self._paused is not None:
            self._index, self._count = self._paused
            self._paused = None
            self._grant()
            self._wake()
