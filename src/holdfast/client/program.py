"""A program: how its main coroutine runs to its end, and the source of its events.

SIGTERM, Ctrl-C       cancel the main coroutine; its `async with` blocks close receivers and clients
the same once more    end at once
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Coroutine
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar
from urllib.parse import quote

Result = TypeVar("Result")

# The exit codes of a program that was ended with Ctrl-C, and with SIGTERM: 128 and the number of the signal.
INTERRUPTED = 130
TERMINATED = 143


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """As `asyncio.run`, on uvloop where there is one; Ctrl-C and SIGTERM end the program in good order and without a traceback.

        async def main() -> None:
            async with holdfast.connect("file:./events") as client: …

        holdfast.run(main())

    Either cancels `main` where it waits. Its `async with` blocks close receivers and clients: confirms are sent, unconfirmed
    events come again. The exit code is then 130 after Ctrl-C, 143 after SIGTERM. The same signal again does not wait for that.
    A program that handles SIGTERM itself goes on doing so.
    """
    from holdfast.node.background import new_loop  # a client alone needs nothing of a node

    termination = _Termination()
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner, termination:
            return runner.run(termination.watch(main))
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except asyncio.CancelledError:
        if termination.is_told:
            raise SystemExit(TERMINATED) from None
        raise


class _Termination(AbstractContextManager[None]):
    """Hears SIGTERM while it is entered, in the main thread of a program that does not handle it itself."""

    def __init__(self) -> None:
        self.is_told = False
        self._is_hearing = False
        self._task: asyncio.Task[Any] | None = None

    async def watch(self, main: Coroutine[Any, Any, Result]) -> Result:
        self._task = asyncio.current_task()
        if self.is_told:
            self._cancel()
        return await main

    def __enter__(self) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._hear)
            self._is_hearing = True

    def __exit__(self, *exc: object) -> None:
        if self._is_hearing:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.is_told:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self.is_told = True
        if self._task is not None:
            self._task.get_loop().call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


def source_of(program: str = "") -> str:
    """The source of events of a program without a name: its host and what it is called, the same when it is started again."""
    return f"{quote(socket.gethostname())}/{quote(program or _program())}"


def _program() -> str:
    """The module of `python -m`, or the file of the program; "python" where there is neither."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None:
        return str(spec.name.removesuffix(".__main__"))
    given = sys.argv[0] if sys.argv else ""
    return Path(given).stem if given not in ("", "-c", "-") else "python"
