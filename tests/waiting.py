"""Waiting in a test for something that will be so, and failing with what it was when it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest


async def until(condition: Callable[[], object], what: str) -> None:
    for _ in range(2_000):
        if condition():
            return
        await asyncio.sleep(0.005)
    pytest.fail(f"it never came about that {what}")
