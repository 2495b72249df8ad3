"""Work that is finished before its task is cancelled: a transaction that was begun, an action that is half done."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

# How long a program that stops waits for it. An action that takes longer is done again by the next program.
GRACE_S = 10.0


async def finish_first(work: Coroutine[Any, Any, None]) -> None:
    """Do this work. A cancellation is heard when it is done, or after a while."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait({task}, timeout=GRACE_S)
            task.cancel()
        raise
