"""Flow control through restarts, and receivers that are passed over (B12)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import holdfast
import holdfast.blocking
from holdfast.errors import Blocked, Closed, LinkLost
from holdfast.node.node import Node
from holdfast.node.settings import NodeSettings
from holdfast.wire import tcp
from holdfast.wire.decoder import FrameDecoder
from holdfast.wire.frame import MAGIC, VERSIONS, Answered, Attach, Credit, Deliver, Hello, Message, OpenSession, encode_lead
from tests.waiting import PATIENCE_S, turn_loop


async def test_a_full_destination_is_full_after_a_restart_too(tmp_path: Path) -> None:
    """Sizes and settings come back from the snapshot and the replay; the next primary finds out by looking."""
    url = f"file:{tmp_path}/events"
    async with holdfast.connect(url) as client:
        await client.create_queue("by-events", events_max=3)
        await client.create_queue("by-bytes", bytes_max=4_000)
        for _ in range(3):
            await client.queue("by-events").send("x")
        await client.queue("by-bytes").send("x" * 5_000)
    async with holdfast.connect(url) as client:
        shown = {row["name"]: row["is_blocked"] for row in await client.destinations()}
        status = await client.status()

        assert (shown["by-events"], shown["by-bytes"]) == (True, True)
        assert status["blocked"] == ["by-bytes", "by-events"]
        for name in ("by-events", "by-bytes"):
            with pytest.raises(Blocked):
                await client.queue(name).send("more", timeout=0.2)
            async with client.queue(name).receive() as incoming:
                await (await incoming.next(timeout=10)).confirm()
            await client.queue(name).send("fits", timeout=10)


async def test_a_receiver_without_credit_is_passed_over_and_the_other_gets_everything_b12() -> None:
    async with holdfast.connect("memory:") as client:
        queue = client.queue("orders")
        async with queue.receive(credit=1) as stuck, queue.receive() as quick:
            for number in range(50):
                await queue.send(number)
            held = await stuck.next(timeout=10)

            got = [await quick.next(timeout=10) for _ in range(49)]

            assert sorted([held.data, *(event.data for event in got)]) == list(range(50))


class Deaf(asyncio.Protocol):
    """A client that attaches, grants a great deal of credit, and stops reading."""

    def __init__(self) -> None:
        self.decoder = FrameDecoder()
        self.heard: list[Message] = []
        self.is_lost = False
        self._changed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._changed.set()

    def data_received(self, data: bytes) -> None:
        self.heard += [frame.message for frame in self.decoder.feed(data)]
        self._changed.set()

    def say(self, session: int, message: Message) -> None:
        self.transport.write(encode_lead(session, message, 0))

    async def hear(self, kind: type[Message], count: int = 1) -> None:
        async with asyncio.timeout(10):
            while sum(isinstance(each, kind) for each in self.heard) < count:
                assert not self.is_lost
                self._changed.clear()
                await self._changed.wait()

    async def attach(self, queue: str) -> None:
        self.say(0, Hello(MAGIC, list(VERSIONS)))
        self.say(1, OpenSession(1))
        self.say(1, Attach(2, 1, queue, "queue"))
        await self.hear(Answered)
        self.say(1, Credit(1, 1_000_000, 1 << 40))


async def test_a_client_that_does_not_read_is_passed_over_until_it_does_and_keeps_its_link_b12() -> None:
    """Its credit is large, its socket full: what waits for it is bounded, the others are served, and it goes on later."""
    node = await Node.in_memory(NodeSettings(link_bytes_max=12 << 20))
    listener = await tcp.listen("127.0.0.1", 0, node.clients.accept)
    _, deaf = await asyncio.get_running_loop().create_connection(Deaf, "127.0.0.1", listener.port)
    await deaf.attach("orders")
    deaf.transport.pause_reading()

    async with holdfast.connect(f"holdfast://127.0.0.1:{listener.port}") as client:
        for _ in range(60):
            await client.queue("orders").send(bytes(500_000))
        async with client.queue("orders").receive(timeout=10) as incoming:
            await client.queue("orders").send(b"for who reads")
            while (event := await incoming.next()).data != b"for who reads":
                await event.confirm()
            held_by_deaf = (await client.describe("orders"))["in_flight"]
            await event.confirm()
        assert 0 < held_by_deaf < 40
        deaf.transport.resume_reading()
        await deaf.hear(Deliver)
        await client.queue("orders").send(b"and now")
        await deaf.hear(Deliver, sum(isinstance(each, Deliver) for each in deaf.heard) + 1)

    assert not deaf.is_lost
    deaf.transport.abort()
    await listener.close()
    await node.close()


def test_the_blocking_twin_knows_what_is_full_and_tries(tmp_path: Path) -> None:
    with holdfast.blocking.connect(f"file:{tmp_path}/events") as client:
        client.create_queue("q", events_max=1, redelivery_delay=0.5)
        client.configure("q", low_percent=50)
        queue = client.queue("q")
        queue.try_send(1)
        with pytest.raises(Blocked):
            queue.send(2, timeout=0.2)
        assert queue.is_blocked
        with pytest.raises(Blocked):
            queue.try_send(2)
        with queue.receive() as incoming:
            incoming.next(timeout=10).reject(ValueError("odd"))
        queue.unblocked(timeout=10)
        client.unblocked(timeout=60)

        (dead,) = client.dead.list()
        assert (dead.dead[0].code, dead.dead[0].reason) == ("rejected", "ValueError: odd")
        assert client.dead.show(dead.position).data == 1
        assert client.dead.replay([dead.position]) == 1
        with queue.receive() as incoming:
            incoming.next(timeout=10).reject("again")
        assert client.dead.purge(everything=True) == 1


async def test_a_client_that_waits_for_room_is_woken_when_it_is_closed() -> None:
    async with holdfast.connect("memory:", timeout=0.5) as client:
        await client.create_queue("q", events_max=1)
        await client.queue("q").send(1)
        while not client.queue("q").is_blocked:
            await client.status()
        waiting = asyncio.ensure_future(client.queue("q").send(2, timeout=60))
        await turn_loop()
    with pytest.raises(holdfast.errors.Closed):
        await waiting


async def test_a_client_is_closed_although_a_task_goes_on_sending() -> None:
    async def send(client: holdfast.Client) -> None:
        while True:
            await client.queue("busy").send("again")
            sent.set()

    sent = asyncio.Event()
    async with asyncio.timeout(PATIENCE_S):
        async with holdfast.connect("memory:", timeout=0.2) as client:
            sending = asyncio.create_task(send(client))
            await sent.wait()
        with pytest.raises((LinkLost, Closed)):
            await sending
