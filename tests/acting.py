"""Actions at work in a test: rules that run while a block lasts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.actions import Actions, Rule


@asynccontextmanager
async def at_work(url: str, *rules: Rule, **options: Any) -> AsyncIterator[Actions]:
    """Run these rules, or those of `rule_set=`, while the block lasts."""
    async with Actions(url, rules, **options) as actions:
        working = asyncio.create_task(actions.run())
        try:
            yield actions
        finally:
            actions.stop()
            await working
