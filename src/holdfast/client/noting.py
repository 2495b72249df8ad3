"""Noting verdicts: one by one as the program gives them, sent together, prompt or lazy as the receiver's pace says.

    confirm, release, reject ─▶ note ─▶ (so many, or so long, or nothing else to do) ─▶ flush ─▶ Settling

A verdict belongs to the generation of handing over that its event came with. What was given back meanwhile, because the receiver
was closed, the session recovered or the server gave it up, is of a former generation: its verdict comes too late.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import ClassVar

from holdfast.client import checks
from holdfast.client.checks import ConfirmMode
from holdfast.client.held import Held
from holdfast.client.session import Session
from holdfast.client.settling import Settling
from holdfast.client.verdicts import Verdict
from holdfast.errors import Closed, HoldfastError, Refused
from holdfast.event.position import Ranges


class Noting(ABC):
    MODE: ClassVar[ConfirmMode] = "event"
    # Verdicts that are noted before they are sent although more are being noted, and how long the first may wait.
    NOTED_MAX: ClassVar[int] = 512
    NOTED_SECONDS_MAX: ClassVar[float] = 0.005

    def __init__(self, session: Session, receiver: int) -> None:
        self._session = session
        self._loop = session.connection.loop
        self._held = Held()
        self._generation = 0
        self._end: HoldfastError | None = None
        self._is_recovered = False
        self._is_flush_due = False
        self._settling = Settling(session, receiver, self._held, self._gone)
        self._verdicts = self._settling.verdicts
        self.noted: asyncio.Future[None] = self._loop.create_future()
        self.noted.set_result(None)

    @property
    def generation(self) -> int:
        """Events of an earlier one were given back."""
        return self._generation

    @property
    def is_recovered(self) -> bool:
        """The program gave them back itself, by recovering."""
        return self._is_recovered

    @property
    def session(self) -> Session:
        return self._session

    @property
    def delivered_up_to(self) -> int:
        """The newest position that was handed over."""
        return self._verdicts.highest

    def lock(self, position: int, generation: int) -> None:
        """A transaction decides on this one from now on."""
        if generation != self._generation:
            self._note_too_late()
            raise Refused("the event was given back before it was confirmed, and is delivered again", position=position)

    def unlock(self, ranges: Ranges, generation: int) -> None:
        """A transaction has confirmed these: they are held no more."""
        if generation == self._generation:
            for first, last in ranges:
                self._held.remove(first, last)

    def note_confirm(self, position: int, generation: int) -> Awaitable[None]:
        verdicts = self._verdicts
        if position == verdicts.end + 1 and generation == self._generation and verdicts.noted < self.NOTED_MAX:
            verdicts.end = position  # by far the most frequent case: the range grows by one
            verdicts.noted += 1
        elif generation != self._generation:
            self._note_too_late()
        else:
            verdicts.confirm(position)
            self._flush_soon()
        return self.noted

    def confirmed_again(self, generation: int) -> Awaitable[None]:
        """An event that is confirmed already is confirmed: nothing new, where each stands for itself."""
        return self.noted

    def note(self, verdict: Verdict, position: int, generation: int, delay_ms: int = 0, reason: str = "") -> Awaitable[None]:
        if generation != self._generation:
            self._note_too_late()
        else:
            self._verdicts.note(verdict, position, delay_ms, reason)
            self._flush_soon()
        return self.noted

    def _note_too_late(self) -> None:
        """What this program closed or recovered says so at once; what the server gave up is told by `settled`, and by leaving."""
        if isinstance(self._end, Closed):
            raise Closed("the receiver was closed before this verdict; the event was given back, and is delivered again")
        if self._is_recovered:
            raise Refused("the session was recovered before this verdict; the event was given back, and is delivered again")
        self._settling.note_too_late()

    def _flush_soon(self) -> None:
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_later(self.NOTED_SECONDS_MAX, self._flush_in_time)
        if self._verdicts.noted >= self.NOTED_MAX:
            self.flush()

    def _flush_in_time(self) -> None:
        self._is_flush_due = False
        self.flush()

    def flush(self) -> None:
        """Send what is noted."""
        self._settling.flush()

    async def settled(self, timeout: float | None = None) -> None:
        """Wait until all verdicts so far are applied. Raises the first that was refused."""
        await self._settling.settled(checks.seconds(timeout, self._session.connection.timeout))
        self._settling.raise_error()

    @abstractmethod
    def _gone(self, error: HoldfastError) -> None:
        """A verdict was refused because the server gave this receiver up."""
