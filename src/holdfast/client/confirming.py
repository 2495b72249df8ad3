"""Confirm modes: when an event that was handed out counts as finished.

    mode             finished when                                             after a crash
    event            the program says so, event by event (the default)         what has no verdict comes again
    auto             the next event is asked for, or the receiver is left      the one in hand comes again
    duplicates-ok    as auto, but the server is told seldom, of many at once   some that were finished come again too
    client           the program confirms any event: then everything that      everything since the last confirm comes again
                     the session was handed so far is, over all receivers

In `auto` and `duplicates-ok` an event whose loop body raises is released, counted as delivered, and comes again; so is the one in
hand when a task is cancelled. A verdict that the program gives itself counts in every mode, for that event. In `client` mode what
was not confirmed when a receiver is left is released.

A receiver that confirms by itself has one event in hand, so one task at a time asks it: another one's asking would confirm what
the first is still at work on, and is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, ClassVar

from holdfast.client import checks
from holdfast.client.checks import ConfirmMode
from holdfast.client.held import Held
from holdfast.client.received import Handed, ReceivedEvent
from holdfast.client.recipient import Incoming
from holdfast.client.session import Session
from holdfast.client.verdicts import Verdict
from holdfast.errors import HoldfastError, Refused


class AutoIncoming(Incoming):
    """Confirms the event in hand when the next is asked for."""

    MODE: ClassVar[ConfirmMode] = "auto"

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._in_hand: ReceivedEvent | None = None
        self._taker: asyncio.Task[Any] | None = None
        self._is_asked = False

    async def __anext__(self) -> ReceivedEvent:
        index, event = self._index, self._in_hand
        if index < self._count and event is not None and asyncio.current_task() is self._taker:  # most of them
            if not event.is_decided:
                event.confirm()
            self._index = index + 1
            self._in_hand = event = ReceivedEvent(self._handed, index)  # type: ignore[arg-type]  # there is one
            return event
        self._begin_asking()
        try:
            self._in_hand = await super().__anext__()
            return self._in_hand
        finally:
            self._is_asked = False

    async def next(self, timeout: float | None = None) -> ReceivedEvent:
        """The next event; the one before is confirmed by asking."""
        self._begin_asking()
        try:
            self._in_hand = await super().next(timeout)
            return self._in_hand
        finally:
            self._is_asked = False

    def _begin_asking(self) -> None:
        task = asyncio.current_task()
        if self._taker is not None and self._taker is not task and not self._taker.done() and self._is_busy:
            raise Refused(
                f"another task has an event of {self.destination!r} in hand, or waits for one, and asking for the next would "
                "confirm it; give each task a receiver, or receive with confirm='event'"
            )
        self.finish(is_done=True)
        self._taker, self._is_asked = task, True

    @property
    def _is_busy(self) -> bool:
        return self._is_asked or (self._in_hand is not None and not self._in_hand.is_decided)

    def finish(self, *, is_done: bool) -> None:
        """Decide on the event in hand, unless the program has."""
        event, self._in_hand = self._in_hand, None
        if event is None or event.is_decided:
            return
        if is_done:
            event.confirm()
        else:
            event.release()

    def _discard(self, error: HoldfastError) -> None:
        if self._is_recovered:  # it was given back by the program: nothing to be told
            self._in_hand = None
        super()._discard(error)


class LazyIncoming(AutoIncoming):
    """As auto; the server hears of it in long ranges, not when there is a moment."""

    MODE: ClassVar[ConfirmMode] = "duplicates-ok"
    NOTED_MAX = 10_000
    NOTED_SECONDS_MAX = 1.0

    def _idle(self) -> None:
        """Waiting is no reason to send."""


class ClientIncoming(Incoming):
    """A confirm of any event confirms all that the session was handed."""

    MODE: ClassVar[ConfirmMode] = "client"

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._undecided = Held()

    async def __anext__(self) -> ReceivedEvent:
        event = await super().__anext__()
        self._undecided.add_one(event.position)
        return event

    async def next(self, timeout: float | None = None) -> ReceivedEvent:
        event = await super().next(timeout)
        self._undecided.add_one(event.position)
        return event

    async def next_run(self, timeout: float | None = None) -> tuple[Handed, range]:
        handed, taken = await super().next_run(timeout)
        self._undecided.add(handed.first + taken[0], handed.first + taken[-1])
        return handed, taken

    def lock(self, position: int, generation: int) -> None:
        super().lock(position, generation)
        self._undecided.remove(position, position)

    def note_confirm(self, position: int, generation: int) -> Awaitable[None]:
        if generation != self._generation:
            self._note_too_late()
            return self.noted
        for recipient in list(self._session.recipients.values()):
            if isinstance(recipient, ClientIncoming):
                recipient._confirm_handed()
        return self.noted

    def confirmed_again(self, generation: int) -> Awaitable[None]:
        """It stands for all that was handed out since."""
        return self.note_confirm(0, generation)

    def _confirm_handed(self) -> None:
        unseen = self.ahead()
        for first, last in unseen:
            self._undecided.remove(first, last)
        for first, last in self._undecided.ranges():
            self._verdicts.confirm_range(first, last)
        if self._undecided:
            self._undecided.clear()
            self._flush_soon()
        for first, last in unseen:
            self._undecided.add(first, last)

    def note(self, verdict: Verdict, position: int, generation: int, delay_ms: int = 0, reason: str = "") -> Awaitable[None]:
        if generation == self._generation:
            if position not in self._undecided:
                raise Refused(
                    f"the event at {position} was confirmed already, together with another; decide on it before you confirm one",
                    position=position,
                )
            self._undecided.remove(position, position)
        return super().note(verdict, position, generation, delay_ms, reason)

    def _discard(self, error: HoldfastError) -> None:
        self._undecided.clear()
        super()._discard(error)


_RECEIVERS: dict[ConfirmMode, type[Incoming]] = {
    kind.MODE: kind for kind in (Incoming, AutoIncoming, LazyIncoming, ClientIncoming)
}


def receiver_for(session: Session, confirm: ConfirmMode | None) -> type[Incoming]:
    """The receiver that confirms in this way; without one, in the session's."""
    return _RECEIVERS[session.confirm if confirm is None else checks.confirm_mode(confirm)]
