"""The background: an event loop in a thread of its own, which goes on whatever the program's own loops do.

One background serves a whole process: blocking clients run in it, and so do nodes that several loops share (`embedded`). Its
first use starts it, and it lives as long as the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from holdfast.errors import Closed

Result = TypeVar("Result")


class Background:
    """A loop in a thread."""

    def __init__(self) -> None:
        self.loop = new_loop()
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
        """Run it in the background, and wait for it in this thread. Ctrl-C ends the wait and cancels the call."""
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


def new_loop() -> asyncio.AbstractEventLoop:
    """An event loop of the fastest kind that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


_starting = threading.Lock()
_started: list[Background] = []  # none or one


def shared_background() -> Background:
    with _starting:
        if not _started or not _started[0].is_alive:
            _started[:] = [Background()]
        return _started[0]
