"""A worker at work in a test, and what becomes of its events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.client.client import Client
from holdfast.worker.worker import Worker
from tests.waiting import until

SOON = (0.0, 0.01)


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[Client]:
    async with worker:
        yield worker.client


async def emptied(client: Client, destination: str) -> None:
    """Wait until every event of a destination was confirmed, or is dead."""

    async def is_empty() -> bool:
        return not (await client.describe(destination))["waiting"]

    await until(is_empty, f"{destination} is empty")


async def reasons(client: Client, destination: str) -> list[str]:
    """Why events of a destination are dead."""
    return [event.dead[0].reason for event in await client.dead.list() if event.destination == destination]
