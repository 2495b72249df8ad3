"""The recovery of a session: everything that it was handed and has not decided on is delivered again, in order.

    pause ─▶ release what was looked at (counted) ─▶ attach anew, holding nothing (the rest goes back uncounted) ─▶ credit

Every receiver of the session takes each step before any takes the next. If one were given credit while another still held events
of the same queue, newer events would overtake those. A lost link on the way is waited for; each step may be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.client.connection.session import Session
    from holdfast.client.receiving.receiver import Receiver


async def recover(session: Session, timeout: float, only: Collection[Receiver] | None = None) -> None:
    """Recover all receivers, or `only` these. Unreachable or LinkLost when it was not finished in time: then do it again."""
    deadline = session.connection.deadline(timeout)
    async with session.recovering:
        await _recover(session, deadline, only)


async def _recover(session: Session, deadline: float, only: Collection[Receiver] | None) -> None:
    receivers = [each for each in session.receivers.values() if each.is_open and (only is None or each in only)]
    for receiver in receivers:
        receiver.buffer.pause()
    try:
        await _all(receiver.give_back(deadline) for receiver in receivers)
        await _all(receiver.attach_anew(deadline) for receiver in receivers)
    finally:
        for receiver in receivers:
            receiver.go_on_anew()


async def _all(steps: Iterable[Awaitable[None]]) -> None:
    """Wait for all steps, then raise the first problem: none is left half done in the background."""
    for outcome in await asyncio.gather(*steps, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
