"""Who reads by place as much as there is, and slowly, costs the server a few MiB and disturbs nobody (D1: flat memory)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import holdfast
from holdfast.node.settings import NodeSettings
from holdfast.wire import frame
from holdfast.wire.decoder import FrameDecoder
from holdfast.wire.frame import MAGIC, VERSIONS, Browse, Browsed, Hello, Message, OpenSession
from tests.running_server import SMALL, running

PAGES = 60
MIB = 1 << 20


def as_bytes(session: int, message: Message) -> bytes:
    return frame.encode_lead(session, message, 0)


async def test_pages_wait_for_their_turn_while_the_link_takes_no_more(tmp_path: Path) -> None:
    settings = NodeSettings(journal=SMALL, link_bytes_max=16 * MIB)
    async with running(tmp_path / "data", settings) as server, holdfast.connect(server.url) as client:
        await client.queue("q").send_many([bytes(60_000)] * 18)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=64 << 10)
        writer.write(as_bytes(0, Hello(MAGIC, list(VERSIONS))) + as_bytes(1, OpenSession(1 << 48, "slow")))
        for token in range(1, PAGES + 1):
            writer.write(as_bytes(1, Browse((1 << 48) + token, "q", "", 0, 1 << 16, "", 0, MIB)))
        links = server.node.clients.open
        async with asyncio.timeout(20):
            while not any(link._link.is_congested for link in links):
                await client.status()
        for _ in range(50):
            await client.status()  # others are served
            assert sum(link._link.bytes_waiting for link in links) < 8 * MIB

        async with asyncio.timeout(60):
            decoder, pages = FrameDecoder(), 0
            while pages < PAGES:
                pages += sum(isinstance(each.message, Browsed) for each in decoder.feed(await reader.read(MIB)))
        writer.close()
