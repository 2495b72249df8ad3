"""A loop of its own for a client that is asynchronous, so that every peer can be driven alike."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

from tests.bench.peer import WAIT_SECONDS

Result = TypeVar("Result")


class Loop:
    """Runs one coroutine after the other, each for at most WAIT_SECONDS, in the thread that uses it."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(asyncio.wait_for(work, WAIT_SECONDS))

    def close(self) -> None:
        self._runner.close()
