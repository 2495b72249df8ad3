"""Those who wait on a producer, and what they hear when their time is up.

    for a receipt    each in the gathering that its event went into, with a deadline of its own; one alarm for all of them
    for room         pipelines, while too many full batches wait for the window
    for the end      of everything that was taken

A caller whose time is up hears Unreachable or TimedOut when its event was never sent (it is withdrawn), LinkLost when it was.
In the latter case the batch stays, and is sent again until the client is closed: it may still be accepted, once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.client.alarm import Alarm, wake
from holdfast.client.unfinished import Unfinished
from holdfast.errors import HoldfastError, LinkLost, TimedOut, Unreachable

if TYPE_CHECKING:
    from holdfast.client.session import Session

# Full batches that may wait for the window before a pipeline is held back.
WAITING_MAX = 8


class Callers:
    def __init__(self, session: Session, unfinished: Unfinished) -> None:
        self.alarm = Alarm(session.connection.loop, self._rang)
        self.for_end: list[asyncio.Future[None]] = []
        self._for_room: list[asyncio.Future[None]] = []
        self._session = session
        self._loop = session.connection.loop
        self._unfinished = unfinished
        self._flow = unfinished.flow

    def has_room(self, destination: str) -> bool:
        """A full batch for this destination may be added."""
        return len(self._unfinished.waiting) < WAITING_MAX and (not self._flow or self._flow.held_for(destination) < WAITING_MAX)

    async def room(self, destination: str, timeout: float) -> None:
        """Wait until a full batch may be added."""
        deadline = self._loop.time() + timeout
        while not self.has_room(destination):
            future = self._loop.create_future()
            self._for_room.append(future)
            try:
                async with asyncio.timeout_at(deadline):
                    await future
            except TimeoutError as problem:
                raise self._too_late(destination, False, timeout) from problem

    async def flushed(self, timeout: float) -> None:
        """Wait until everything is receipted or refused."""
        while not self._unfinished.is_empty:
            future = self._loop.create_future()
            self.for_end.append(future)
            try:
                async with asyncio.timeout(timeout):
                    await future
            except TimeoutError as problem:
                raise self._too_late("", bool(self._unfinished.in_flight), timeout) from problem

    def tell(self) -> None:
        """Less is unfinished than before: there may be room, or an end."""
        if self._for_room and len(self._unfinished.waiting) < WAITING_MAX:
            wake(self._for_room)
        if self.for_end and self._unfinished.is_empty:
            wake(self.for_end)

    def _rang(self, now: float) -> None:
        """Tell those whose time is over, and set the alarm for the next."""
        for gathering in list(self._unfinished):
            late = gathering.expire(now)
            for waiter in late:
                if not waiter.future.done():
                    waiter.future.set_exception(self._too_late(gathering.destination, gathering.was_sent))
            if late and not gathering.was_sent and gathering.is_empty:
                self._unfinished.drop(gathering)
                self.tell()
            for waiter in gathering.waiters:
                self.alarm.watch(waiter.deadline)

    def _too_late(self, destination: str, was_sent: bool, timeout: float | None = None) -> HoldfastError:
        """Whether it was sent, and if not, what kept it."""
        within = "" if timeout is None else f" within {timeout:g} s"
        if was_sent:
            return LinkLost(f"sent, and no receipt came{within}; it may have been accepted, or still be, once")
        if not self._session.is_ready:
            return Unreachable(f"no link to a server{within}; nothing was sent: {self._session.connection.problem_text}")
        if self._flow.is_blocked(destination):
            return self._flow.refusal(destination, timeout)
        return TimedOut(
            f"the server takes events more slowly than they are sent, and this was not sent{within}; send it again later"
        )
