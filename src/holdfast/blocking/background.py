"""The loop in its background thread, and how work gets there.

    run       one call: this thread waits while it is carried out over there; Ctrl-C ends the wait and cancels the call
    HandOver  many small things: gathered here, taken over there together, so that a hot loop seldom changes threads

One loop serves all blocking clients of a process: it is started by the first and lives as long as the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from holdfast.errors import Closed

Item = TypeVar("Item")
Result = TypeVar("Result")


class Background:
    """A loop in a thread."""

    def __init__(self) -> None:
        self.loop = _new_loop()
        self._thread = threading.Thread(target=self._run, name="holdfast", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    @property
    def is_alive(self) -> bool:
        """False in a child process: threads do not survive a fork."""
        return self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Carry it out over there; wait for it here."""
        if threading.current_thread() is self._thread:
            work.close()
            raise Closed("holdfast.blocking was called from its own loop; use holdfast.connect and await there")
        if not self.is_alive:
            work.close()
            raise Closed("this client belongs to the process that was forked; connect again in this one")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


_starting = threading.Lock()
_started: list[Background] = []  # none or one; shared, so that memory:NAME is shared between blocking clients


def shared_background() -> Background:
    with _starting:
        if not _started or not _started[0].is_alive:
            _started[:] = [Background()]
        return _started[0]


class HandOver(Generic[Item]):
    """Items put in this thread and taken in the other, many at a time."""

    def __init__(self, background: Background, take: Callable[[Item], object]) -> None:
        self._background = background
        self._take = take
        self._waiting: deque[Item] = deque()
        self._is_due = False
        self._error: BaseException | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, item: Item) -> None:
        self._waiting.append(item)
        if not self._is_due:
            self._is_due = True
            self._background.loop.call_soon_threadsafe(self.take_over)

    def take_over(self) -> None:
        """In the other thread. `_is_due` is taken back first: an item that is put from now on asks for another turn."""
        self._is_due = False
        while self._waiting:
            item = self._waiting.popleft()
            try:
                self._take(item)
            except Exception as problem:  # told to whoever asks: nobody waits here
                self._error = self._error or problem

    def raise_error(self) -> None:
        """The first error since it was last asked for."""
        error, self._error = self._error, None
        if error is not None:
            raise error
