"""The thread of one action. It is a daemon: a program ends although an action hangs in it."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple


class _Job(NamedTuple):
    work: Callable[[], None]
    done: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop


class ActionThread:
    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def call(self, work: Callable[[], None]) -> None:
        """Do this in the thread; raises what it raises."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._jobs.put(_Job(work, done, loop))
        await done

    def close(self) -> None:
        """End the thread when it is done."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            problem: BaseException | None = None
            try:
                job.work()
            except BaseException as raised:  # such as SystemExit: it is the action's own failure
                problem = raised if isinstance(raised, Exception) else RuntimeError(f"the action ended with {raised!r}")
            with suppress(RuntimeError):  # the loop has ended, and nobody waits
                job.loop.call_soon_threadsafe(_tell, job.done, problem)


def _tell(done: asyncio.Future[None], problem: BaseException | None) -> None:
    if done.done():
        return
    if problem is None:
        done.set_result(None)
    else:
        done.set_exception(problem)
