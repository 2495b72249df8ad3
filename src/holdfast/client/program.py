"""Run a program: its main coroutine, to its end or until somebody presses Ctrl-C."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from holdfast.node.background import new_loop

Result = TypeVar("Result")

# The exit code of a program that was ended with Ctrl-C.
INTERRUPTED = 130


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """As `asyncio.run`, on uvloop where there is one; Ctrl-C ends the program in good order and without a traceback.

        async def main() -> None:
            async with holdfast.connect("file:./events") as client: …

        holdfast.run(main())

    Ctrl-C cancels `main` where it waits. Its `async with` blocks close receivers and clients: confirms are sent, unconfirmed
    events come again. The exit code is then 130. A second Ctrl-C does not wait for that.
    """
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(main)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
