"""Threads for plain functions, which nobody has to wait for: the interpreter ends although one of them still runs.

    call ─▶ an idle thread, or a new one ─▶ the function ─▶ its result, in the loop

The callers bound how many run at a time: each has a slot of its handler.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple


class _Call(NamedTuple):
    function: Callable[..., Any]
    arguments: list[Any]
    context: contextvars.Context  # of the caller: its span, for one
    outcome: asyncio.Future[Any]

    def run(self) -> None:
        try:
            result = self.context.run(self.function, *self.arguments)
        except StopIteration as problem:  # no future takes it
            raised = RuntimeError("the handler raised StopIteration")
            raised.__cause__ = problem
            self._tell(self.outcome.set_exception, raised)
        except BaseException as problem:
            self._tell(self.outcome.set_exception, problem)
        else:
            self._tell(self.outcome.set_result, result)

    def _tell(self, tell: Callable[[Any], None], said: Any) -> None:
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            self.outcome.get_loop().call_soon_threadsafe(tell, said)


class Threads:
    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._started = 0
        self._busy = 0

    def call(self, function: Callable[..., Any], arguments: list[Any]) -> asyncio.Future[Any]:
        """Call a function in a thread. Nobody cancels the future: that would not end the function."""
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        outcome.add_done_callback(self._ended)
        self._busy += 1
        if self._busy > self._started:
            self._started += 1
            threading.Thread(target=self._run, name=f"holdfast-worker-{self._started}", daemon=True).start()
        self._calls.put(_Call(function, arguments, contextvars.copy_context(), outcome))
        return outcome

    def _ended(self, outcome: asyncio.Future[Any]) -> None:
        self._busy -= 1

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call.run()
            del call  # an idle thread keeps nothing alive

    def close(self) -> None:
        """End each thread when its function has returned."""
        for _ in range(self._started):
            self._calls.put(None)
