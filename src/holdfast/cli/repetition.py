"""Commands that show something again and again: how often, how many times, and for how long without an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

import typer

Interval = Annotated[
    float, typer.Option("--interval", metavar="SECONDS", min=0.05, max=86_400, help="How long to wait between two looks.")
]
Looks = Annotated[int | None, typer.Option("--count", metavar="N", min=1, help="Look so many times; without it, until Ctrl-C.")]


async def looks(interval_s: float, count: int | None) -> AsyncIterator[float]:
    """Yield the time of each look, with a pause between two."""
    loop = asyncio.get_running_loop()
    done = 0
    while count is None or done < count:
        if done:
            await asyncio.sleep(interval_s)
        yield loop.time()
        done += 1
