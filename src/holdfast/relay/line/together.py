"""Several tasks that belong together: when one ends, all do."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def until_one_ends(**works: Coroutine[Any, Any, None]) -> None:
    """Run these until the first ends, cancel the others, and wait for them. Raise why it ended, if it failed."""
    tasks = [asyncio.create_task(work, name=f"relay: {name}") for name, work in works.items()]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        done = [task for task in tasks if task.done()]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
