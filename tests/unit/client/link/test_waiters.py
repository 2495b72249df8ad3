"""Callers that wait for a change: woken together, once, and forgotten when they wait no longer."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.client.link.waiters import Waiters
from tests.waiting import turn_loop


def begin(waiters: Waiters, deadline: float | None = None) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(waiters.wait(deadline))


async def test_all_who_wait_are_woken_and_whoever_waits_again_waits_for_the_next_time() -> None:
    waiters = Waiters()
    first = [begin(waiters) for _ in range(3)]
    await turn_loop()

    waiters.wake()
    again = begin(waiters)
    await asyncio.gather(*first)

    assert not again.done()
    waiters.wake()
    await again
    assert not waiters


async def test_to_wake_nobody_is_not_remembered() -> None:
    waiters = Waiters()
    waiters.wake()

    waiting = begin(waiters)
    await turn_loop()

    assert waiters
    assert not waiting.done()
    waiters.wake()
    await waiting


async def test_one_whose_time_is_over_or_who_is_cancelled_is_forgotten_and_the_others_wait_on() -> None:
    waiters = Waiters()
    cancelled, patient = begin(waiters), begin(waiters)
    with pytest.raises(TimeoutError):
        await waiters.wait(asyncio.get_running_loop().time() + 0.01)

    cancelled.cancel()
    await asyncio.wait([cancelled])

    assert len(waiters) == 1
    waiters.wake()
    await patient


async def test_one_that_is_cancelled_as_it_is_woken_does_not_keep_the_others_asleep() -> None:
    waiters = Waiters()
    cancelled, other = begin(waiters), begin(waiters)
    await turn_loop()

    cancelled.cancel()
    waiters.wake()

    await other
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert not waiters
