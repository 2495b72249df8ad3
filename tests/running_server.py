"""A server in the test's own loop, so that a test can look into it, hold it back, and end it without a goodbye."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.channel.journal.settings import JournalSettings
from holdfast.node.clock import Clock
from holdfast.node.messages.start import BeforeClaim
from holdfast.node.node import Node
from holdfast.node.settings import NodeSettings
from holdfast.wire import tcp

KIB = 1 << 10
SMALL = JournalSettings(
    size_bytes=3072 * KIB, initial_bytes=1024 * KIB, segment_bytes=128 * KIB, reserve_bytes=128 * KIB, upkeep_bytes=512 * KIB
)
SETTINGS = NodeSettings(journal=SMALL, session_grace_ms=300, start_grace_ms=300, snapshot_bytes=64 * KIB)
# For clients whose links are cut again and again, and where nobody may wait for a grace: longer than any test waits.
PATIENT = NodeSettings(journal=SMALL, session_grace_ms=120_000)


class RunningServer:
    def __init__(self, node: Node, listener: tcp.Listener) -> None:
        self.node = node
        self._listener = listener

    @property
    def url(self) -> str:
        return f"holdfast://127.0.0.1:{self._listener.port}"

    @property
    def port(self) -> int:
        return self._listener.port

    async def close(self) -> None:
        await self._listener.close()
        await self.node.close()

    async def crash(self) -> None:
        """End without a last snapshot or a clean-close mark, as far as one process can: what is durable is what there is."""
        for each in self.node.managers.values():
            each.is_primary = False  # no last snapshot
        await self.close()


async def start(
    data: Path,
    settings: NodeSettings = SETTINGS,
    port: int = 0,
    before_claim: BeforeClaim | None = None,
    clock: Clock | None = None,
) -> RunningServer:
    node = await Node.open(data, settings, clock, before_claim)
    listener = await tcp.listen("127.0.0.1", port, node.clients.accept)
    if before_claim is None:
        for each in node.managers.values():
            await asyncio.wait_for(each.wait_until_primary(), 60)
    return RunningServer(node, listener)


@asynccontextmanager
async def running(data: Path, settings: NodeSettings = SETTINGS, clock: Clock | None = None) -> AsyncIterator[RunningServer]:
    server = await start(data, settings, clock=clock)
    try:
        yield server
    finally:
        await server.close()
