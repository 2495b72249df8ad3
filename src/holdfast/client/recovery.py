"""Recovering a session: everything it was handed and has not decided on is delivered again, in order.

    pause ─▶ release what was looked at (counted) ─▶ attach anew, holding nothing (the rest goes back uncounted) ─▶ credit

Every receiver of the session takes each step before any takes the next: if one were given credit while another still held
events of the same queue, newer events would overtake those. A lost link on the way is waited for; each step may be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.client.recipient import Incoming
    from holdfast.client.session import Session


async def recover(session: Session, timeout: float, only: Collection[Incoming] | None = None) -> None:
    """Raises Unreachable or LinkLost when it could not be finished in time: then it may be asked for again."""
    deadline = session.connection.deadline(timeout)
    async with session.recovering:
        await _recover(session, deadline, only)


async def _recover(session: Session, deadline: float, only: Collection[Incoming] | None) -> None:
    recipients = [each for each in session.recipients.values() if each.is_open and (only is None or each in only)]
    for recipient in recipients:
        recipient.pause()
    try:
        await _all(recipient.give_back(deadline) for recipient in recipients)
        await _all(recipient.attach_anew(deadline) for recipient in recipients)
    finally:
        for recipient in recipients:
            recipient.go_on_anew()


async def _all(steps: Iterable[Awaitable[None]]) -> None:
    """Wait for all of them, then raise the first problem: none is left half done in the background."""
    for outcome in await asyncio.gather(*steps, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
