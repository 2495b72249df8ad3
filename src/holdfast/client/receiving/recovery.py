"""The recovery of a session: everything that it was handed and has not decided on is delivered again, in order.

    pause ─▶ release what was looked at (counted) ─▶ attach anew, holding nothing (the rest goes back uncounted) ─▶ credit

Every receiver of the session takes each step before any takes the next. If one were given credit while another still held events
of the same queue, newer events would overtake those. A lost link on the way is waited for; each step may be repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Collection, Iterable
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError, LinkLost
from holdfast.event.position import Ranges

if TYPE_CHECKING:
    from holdfast.client.connection.session import Session
    from holdfast.client.receiving.receiver import Receiver

log = logging.getLogger("holdfast.client")


async def give_back_prefetched(receiver: Receiver) -> None:
    """Give back what the program was not handed, uncounted; it keeps what it has. More comes when the program asks for it.

    The receiver attaches again, holding the rest. On a lost link it does so anyway.
    """
    session, credit = receiver.session, receiver.credit
    async with session.recovering:
        credit.is_paused = True  # until the answer, what comes is given back too
        try:
            while receiver.is_open and session.is_ready:
                _drop_prefetched(receiver)
                try:
                    deadline = session.connection.deadline(session.connection.timeout)
                    asked_s = session.connection.loop.time()
                    answer = await session.ask_now(receiver.attaching, deadline, session.number)
                except LinkLost:
                    continue  # the link is lost, or the answer: then ask again
                credit.note_round_trip(session.connection.loop.time() - asked_s)
                credit.is_paused = False
                receiver.outbox.lose(Ranges.from_bytes(answer.get("lost", b"")) if isinstance(answer, dict) else Ranges())
                credit.count_anew()
                if receiver.is_asked:
                    credit.grant_due()
                log.debug("what was prefetched of %s is given back: its program does not take it", receiver.destination)
                return
        except HoldfastError as problem:
            receiver.end(problem)
        finally:
            credit.is_paused = False


def _drop_prefetched(receiver: Receiver) -> None:
    """What the program was not handed is held no more."""
    for first, last in receiver.buffer.give_back(receiver.credit):
        receiver.held.remove(first, last)
        receiver.mode.forget(first, last)


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
