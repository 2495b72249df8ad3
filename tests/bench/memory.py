"""Measure h: what a destination and an idle connection cost the server in memory (the kernel's sockets not counted)."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable, Coroutine
from typing import Any

import holdfast
from tests.bench.peers.holdfast import HoldfastClient, Server
from tests.bench.workshop import Workshop

# Connections opened at the same time: more would only wait in the server's queue of those that have not greeted.
AT_ONCE = 50
# Besides the connections, this process has files of its own.
SPARE_FILES = 200


def measure(workshop: Workshop) -> None:
    scale, server = workshop.scale, Server()
    _allow_files(scale.connections + SPARE_FILES)
    try:
        server.start(workshop.folder("memory"))
        client = server.connect()
        client.loop.run(client.client.create_queue("first"))  # what is paid once is paid before
        workshop.tell(f"creating {scale.destinations:,} queues")
        queues = _grown_bytes(server, client, lambda: _create_queues(client, scale.destinations))
        workshop.tell(f"opening {scale.connections:,} connections")
        clients = [holdfast.connect(server.url) for _ in range(scale.connections)]
        links = _grown_bytes(server, client, lambda: _open_all(clients))
        client.loop.run(_close_all(clients))
        client.close()
    finally:
        server.stop()
    workshop.results.note(
        "h", f"memory of one of {scale.destinations:,} queues", "KiB", {"Holdfast": [queues / scale.destinations / 1024]}
    )
    workshop.results.note(
        "h", f"memory of one of {scale.connections:,} idle connections", "KiB", {"Holdfast": [links / scale.connections / 1024]}
    )


def _grown_bytes(server: Server, client: HoldfastClient, work: Callable[[], Coroutine[Any, Any, None]]) -> int:
    before = server.memory_bytes
    client.loop.run(work())
    return server.memory_bytes - before


async def _create_queues(client: HoldfastClient, count: int) -> None:
    for number in range(count):
        await client.client.create_queue(f"queue-{number}")


async def _open_all(clients: list[holdfast.Client]) -> None:
    for start in range(0, len(clients), AT_ONCE):
        await asyncio.gather(*(each.open() for each in clients[start : start + AT_ONCE]))


async def _close_all(clients: list[holdfast.Client]) -> None:
    for start in range(0, len(clients), AT_ONCE):
        await asyncio.gather(*(each.close() for each in clients[start : start + AT_ONCE]))


def _allow_files(count: int) -> None:
    """As many open files as needed, where the system lets us; the server inherits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
