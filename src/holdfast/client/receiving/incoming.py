"""Incoming: the events of a receiver, as a program has them. `receiver` tells how they come.

async with queue.receive() as incoming:
    async for event in incoming:
        …
        await event.confirm()

async with queue.receive() as incoming:
    async for batch in incoming.batches():
        for event in batch:
            …
        await batch.confirm()
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from holdfast.client import checks
from holdfast.client.receiving.attachment.attachment import ranges_of
from holdfast.client.receiving.death import checked_code, checked_reason
from holdfast.client.receiving.merged_receivers import MergedReceivers
from holdfast.client.receiving.receive_buffer import RunTaker
from holdfast.client.receiving.received_batch import EncodedBatch, ReceivedBatch
from holdfast.client.receiving.received_event import ReceivedEvent, checked_release
from holdfast.client.receiving.receiver import Receiver
from holdfast.destination.name import is_everywhere
from holdfast.errors import BadSetting, Closed, Refused
from holdfast.event.position import Ranges

if TYPE_CHECKING:
    from holdfast.client.connection.lanes import Lanes
    from holdfast.client.connection.session import Session

Positions = Ranges | Iterable[tuple[int, int]]


class MakeReceiver(Protocol):
    def __call__(self, session: Session, of: int = 1, /) -> Receiver: ...


class Incoming:
    """Events as they come in: `async with destination.receive() as incoming: async for event in incoming: …`."""

    def __init__(self, session: Session, make: MakeReceiver, key: str) -> None:
        """`make` makes a receiver in a session, one of so many; `key`: the destination, or the pattern as in keys."""
        self._receiver = make(session)  # or the first of several
        self._every = [self._receiver]  # one in each channel, where its destination is everywhere
        self._merged: MergedReceivers | None = None
        self._session = session
        self._make = make
        self._key = key

    @property
    def destination(self) -> str:
        """The queue or topic it receives from, or the pattern."""
        return self._receiver.destination

    @property
    def subscription(self) -> str:
        """The name of its subscription; "" for a queue, and for a subscription that has no name."""
        return self._receiver.subscription

    @property
    def is_open(self) -> bool:
        """Events may still come."""
        return all(each.is_open for each in self._every)

    @property
    def identity(self) -> str:
        """The subscription in one text, as in `Extent`: one that is deleted and made again, or is of a server that was restored
        from a backup, has another. "" before it is open."""
        identities = [each.attachment.identity for each in self._every]
        return ",".join(identities) if all(identities) else ""

    @property
    def held(self) -> Ranges:
        """The positions that it holds: handed over, or held from the beginning (`held=`), and no verdict is applied yet."""
        return self._alone().held.ranges()

    @property
    def lost(self) -> Ranges:
        """Of the positions that it came holding (`held=`), those that are not its own: they are finished, or with another.
        After a lost link, what was lost by that."""
        return self._alone().attachment.lost

    async def open(self, taker: Callable[[Receiver], RunTaker] | None = None) -> Self:
        """Begin to receive. `async with` does it. `taker`: who takes the runs of a receiver, if not this program itself."""
        if self._session.lanes is not None and not self._receiver.was_opened:
            await self._locate(self._session.lanes)
        opened: list[Receiver] = []
        try:
            for each in self._every:
                await each.open(taker(each) if taker is not None else None)
                opened.append(each)
        except BaseException:
            for each in opened:
                self._session.connection.spawn(each.leave(None))
            raise
        return self

    async def _locate(self, lanes: Lanes) -> None:
        """Receive in the channel of the destination, or in every channel."""
        where = lanes.everywhere() if is_everywhere(self._key) else [await lanes.at(self._key)]
        if len(where) > 1 or where[0] is not self._session:
            self._every = [self._make(each, len(where)) for each in where]
        self._receiver = self._every[0]
        if len(self._every) > 1:
            self._merged = MergedReceivers(self._every)

    def _alone(self) -> Receiver:
        """Its one receiver. Refused for one that receives in several channels."""
        if self._merged is not None:
            raise Refused(
                f"{self.destination!r} is received in {len(self._every)} channels, and positions of one mean other events in "
                "another; decide on its events one by one"
            )
        return self._receiver

    async def close(self, timeout: float | None = None) -> None:
        """Send the verdicts, wait until they are applied, give back the rest."""
        for each in self._every:
            await each.close(timeout)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for each in self._every:
            await each.leave(error)

    def __aiter__(self) -> AsyncIterator[ReceivedEvent]:
        """The confirm mode itself, so that handing out an event takes one call."""
        events = self._receiver.events()
        return events if self._merged is None else self

    def __anext__(self) -> Awaitable[ReceivedEvent]:
        return self._receiver.mode.__anext__() if self._merged is None else self._next_of(self._merged)

    async def _next_of(self, merged: MergedReceivers) -> ReceivedEvent:
        try:
            receiver = await merged.ready(self._receiver.mode.timeout)
        except Closed:
            raise StopAsyncIteration from None
        return await receiver.mode.__anext__()

    async def _turn(self, timeout: float | None = None) -> Receiver:
        """The receiver that has the next event, waited for as it is by one alone."""
        if self._merged is None:
            return self._receiver
        return await self._merged.ready(self._receiver.mode.timeout if timeout is None else checks.event_timeout(timeout))

    async def next(self, timeout: float | None = None) -> ReceivedEvent:
        """The next event. TimedOut when none comes in time (0: when none is here); Closed after the receiver was closed."""
        return await (await self._turn(timeout)).mode.next(timeout)

    async def batches(self) -> AsyncIterator[ReceivedBatch]:
        """The events in batches, as they came: `async for batch in incoming.batches()`. It costs less than one by one."""
        self._receiver.events()
        while True:
            try:
                batch = await (await self._turn()).mode.next_batch()
            except Closed:
                return
            yield batch

    def take_at_once(self, take: Callable[[ReceivedBatch], None]) -> None:
        """Have batches handed to `take` within the turn of the loop in which they come, while a task waits in `batches()`.

        The task is handed the others: what comes while it does not wait, and what was delivered before. `take` must not raise.
        Only in confirm mode "event".
        """
        check_unopened(self._receiver)
        for each in self._every:
            each.mode.at_once = take

    async def encoded(self) -> AsyncIterator[EncodedBatch]:
        """The batches as they came, unopened: `async for batch in incoming.encoded()`. For programs that pass them on.

        Only in confirm mode "event". Events that expire on the way are not left out: the bytes say when they do.
        """
        check_unopened(self._receiver)
        self._receiver.events()
        self._leave_unopened()
        while True:
            try:
                batch = EncodedBatch(*await (await self._turn()).mode.next_run(is_whole=True))
            except Closed:
                return
            yield batch

    def _leave_unopened(self) -> None:
        """From now on its batches come unopened."""
        for each in self._every:
            each.buffer.is_unopened = True

    async def give_back_prefetched(self) -> None:
        """Give back, uncounted, what came ahead of use and was not handed out. More comes when it is asked for."""
        for each in self._every:
            async with each.session.recovering:
                if each.is_open:
                    each.prefetch.give_back()

    # --- verdicts by positions ---------------------------------------------------------------------------------------

    def confirm(self, ranges: Positions) -> Ranges:
        """Confirm events by their positions: what it came holding, and what the program was handed. Return those that it holds;
        others are passed over. As every verdict it is noted at once, and travels together with others."""
        return self._alone().verdicts.decide("confirm", ranges_of(ranges))

    def release(self, ranges: Positions, delay: float | None = None, reason: str | BaseException = "") -> Ranges:
        """Give events back by their positions, as `event.release` does."""
        return self._alone().verdicts.decide("release", ranges_of(ranges), *checked_release(delay, reason))

    def reject(self, ranges: Positions, reason: str | BaseException, code: str = "") -> Ranges:
        """Refuse events for good by their positions, as `event.reject` does; with the code of a death elsewhere, if there was
        one."""
        told = (checked_reason(reason), checked_code(code))
        return self._alone().verdicts.decide("reject", ranges_of(ranges), None, *told)

    async def settled(self, timeout: float | None = None) -> None:
        """Wait until all verdicts so far are applied. Raises the first that was refused."""
        for each in self._every:
            await each.settled(timeout)

    def __repr__(self) -> str:
        of = f"subscription {self.subscription!r} of " if self.subscription else ""
        return f"Incoming(from {of}{self.destination!r}{'' if self.is_open else ', not open'})"


def check_unopened(receiver: Receiver) -> None:
    """BadSetting for a receiver whose mode confirms by itself: it does not hand out batches unopened, or at once."""
    if receiver.mode.name != "event":
        raise BadSetting(
            f"such batches are confirmed by the program, not in mode {receiver.mode.name!r}; receive with confirm='event'",
            setting="confirm",
        )
