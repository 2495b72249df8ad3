"""Wait in a test for what will be so, and fail with what it was when it is not. No test waits for a time to pass.

    until         poll in a coroutine; the condition may be one, too
    wait_until    poll in a thread
    turn_loop     let the loop go round: where the number of turns is what is tried, or the rest is done in the next ones

A condition has a minute, so that a machine ten times slower finds the same; a test that succeeds waits no longer than it must.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable

import pytest

PATIENCE_S = 60.0
POLL_S = 0.005


async def until(condition: Callable[[], object], what: str, patience_s: float = PATIENCE_S, poll_s: float = POLL_S) -> None:
    deadline = time.monotonic() + patience_s
    while not await _found(condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"it never came about that {what}")
        await asyncio.sleep(poll_s)


async def _found(answer: object) -> object:
    return await answer if inspect.isawaitable(answer) else answer


def wait_until(condition: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"it never came about that {what}")
        time.sleep(POLL_S)


async def turn_loop(count: int = 1) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
