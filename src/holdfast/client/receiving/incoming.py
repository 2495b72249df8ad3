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
from typing import Self

from holdfast.client.receiving.attachment.attachment import ranges_of
from holdfast.client.receiving.death import checked_code, checked_reason
from holdfast.client.receiving.received_batch import EncodedBatch, ReceivedBatch
from holdfast.client.receiving.received_event import ReceivedEvent, checked_release
from holdfast.client.receiving.receiver import Receiver
from holdfast.errors import BadSetting, Closed
from holdfast.event.position import Ranges

Positions = Ranges | Iterable[tuple[int, int]]


class Incoming:
    """Events as they come in: `async with destination.receive() as incoming: async for event in incoming: …`."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

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
        return self._receiver.is_open

    @property
    def identity(self) -> str:
        """The subscription in one text, as in `Extent`: one that is deleted and made again, or is of a server that was restored
        from a backup, has another. "" before it is open."""
        return self._receiver.attachment.identity

    @property
    def held(self) -> Ranges:
        """The positions that it holds: handed over, or held from the beginning (`held=`), and no verdict is applied yet."""
        return self._receiver.held.ranges()

    @property
    def lost(self) -> Ranges:
        """Of the positions that it came holding (`held=`), those that are not its own: they are finished, or with another.
        After a lost link, what was lost by that."""
        return self._receiver.attachment.lost

    async def open(self) -> Self:
        """Begin to receive. `async with` does it."""
        await self._receiver.open()
        return self

    async def close(self, timeout: float | None = None) -> None:
        """Send the verdicts, wait until they are applied, give back the rest."""
        await self._receiver.close(timeout)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._receiver.leave(error)

    def __aiter__(self) -> AsyncIterator[ReceivedEvent]:
        """The confirm mode itself, so that handing out an event takes one call."""
        return self._receiver.events()

    def __anext__(self) -> Awaitable[ReceivedEvent]:
        return self._receiver.mode.__anext__()

    async def next(self, timeout: float | None = None) -> ReceivedEvent:
        """The next event. TimedOut when none comes in time (0: when none is here); Closed after the receiver was closed."""
        return await self._receiver.mode.next(timeout)

    async def batches(self) -> AsyncIterator[ReceivedBatch]:
        """The events in batches, as they came: `async for batch in incoming.batches()`. It costs less than one by one."""
        self._receiver.events()
        while True:
            try:
                batch = await self._receiver.mode.next_batch()
            except Closed:
                return
            yield batch

    def take_at_once(self, take: Callable[[ReceivedBatch], None]) -> None:
        """Have batches handed to `take` within the turn of the loop in which they come, while a task waits in `batches()`.

        The task is handed the others: what comes while it does not wait, and what was delivered before. `take` must not raise.
        Only in confirm mode "event".
        """
        check_unopened(self._receiver)
        self._receiver.mode.at_once = take

    async def encoded(self) -> AsyncIterator[EncodedBatch]:
        """The batches as they came, unopened: `async for batch in incoming.encoded()`. For programs that pass them on.

        Only in confirm mode "event". Events that expire on the way are not left out: the bytes say when they do.
        """
        check_unopened(self._receiver)
        self._receiver.events()
        self._receiver.buffer.is_unopened = True
        while True:
            try:
                batch = EncodedBatch(*await self._receiver.mode.next_run(is_whole=True))
            except Closed:
                return
            yield batch

    async def give_back_prefetched(self) -> None:
        """Give back, uncounted, what came ahead of use and was not handed out. More comes when it is asked for."""
        async with self._receiver.session.recovering:
            if self._receiver.is_open:
                self._receiver.prefetch.give_back()

    # --- verdicts by positions ---------------------------------------------------------------------------------------

    def confirm(self, ranges: Positions) -> Ranges:
        """Confirm events by their positions: what it came holding, and what the program was handed. Return those that it holds;
        others are passed over. As every verdict it is noted at once, and travels together with others."""
        return self._receiver.verdicts.decide("confirm", ranges_of(ranges))

    def release(self, ranges: Positions, delay: float | None = None, reason: str | BaseException = "") -> Ranges:
        """Give events back by their positions, as `event.release` does."""
        return self._receiver.verdicts.decide("release", ranges_of(ranges), *checked_release(delay, reason))

    def reject(self, ranges: Positions, reason: str | BaseException, code: str = "") -> Ranges:
        """Refuse events for good by their positions, as `event.reject` does; with the code of a death elsewhere, if there was
        one."""
        told = (checked_reason(reason), checked_code(code))
        return self._receiver.verdicts.decide("reject", ranges_of(ranges), None, *told)

    async def settled(self, timeout: float | None = None) -> None:
        """Wait until all verdicts so far are applied. Raises the first that was refused."""
        await self._receiver.settled(timeout)

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
