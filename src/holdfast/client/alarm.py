"""One alarm for many deadlines: with equal timeouts it is set once and stays, however many sends come and go."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError, LinkLost, TimedOut, Unreachable

if TYPE_CHECKING:
    from holdfast.client.session import Session


class Alarm:
    def __init__(self, loop: asyncio.AbstractEventLoop, rang: Callable[[float], None]) -> None:
        """`rang` is called with the time when the first deadline is over; it says which are next."""
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


def too_late(session: Session, destination: str, was_sent: bool, timeout: float | None = None) -> HoldfastError:
    """What a caller is told whose time is up: whether its event was sent, and if not, what kept it."""
    within = "" if timeout is None else f" within {timeout:g} s"
    if was_sent:
        return LinkLost(f"sent, and no receipt came{within}; it may have been accepted, or still be, once")
    if not session.is_ready:
        return Unreachable(f"no link to a server{within}; nothing was sent: {session.connection.problem_text}")
    if session.producer.flow.is_blocked(destination):
        return session.producer.flow.refusal(destination, timeout)
    return TimedOut(f"the server takes events more slowly than they are sent, and this was not sent{within}; send it again later")


def wake(waiting: list[asyncio.Future[None]]) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(None)
    waiting.clear()
