"""NATS JetStream: one server, file storage, `sync_interval: always`; nats-py; a stream with one durable pull consumer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import nats
from nats.aio.client import Client as Nats
from nats.js.api import StorageType, StreamConfig
from nats.js.client import JetStreamContext

from tests.bench.child import Child, accepts_connections, free_port, program
from tests.bench.peer import PREFETCH, WAIT_SECONDS, WINDOW
from tests.bench.peers.looped import Loop

STREAM = "EVENTS"
SUBJECT = "events"
CONFIGURATION = """
listen: "127.0.0.1:{port}"
jetstream: {{ store_dir: "{folder}/store", sync_interval: "always" }}
"""


class JetStreamClient:
    def __init__(self, port: int) -> None:
        self._loop = Loop()
        self._nats, self._stream, self._pull = self._loop.run(self._open(port))

    async def _open(self, port: int) -> tuple[Nats, JetStreamContext, JetStreamContext.PullSubscription]:
        connection = await nats.connect(f"nats://127.0.0.1:{port}")
        stream = connection.jetstream(timeout=WAIT_SECONDS)
        await stream.add_stream(StreamConfig(name=STREAM, subjects=[SUBJECT], storage=StorageType.FILE))
        return connection, stream, await stream.pull_subscribe(SUBJECT, durable="recipient")

    def send_one_by_one(self, bodies: Iterable[bytes]) -> None:
        self._loop.run(self._send_one_by_one(bodies))

    async def _send_one_by_one(self, bodies: Iterable[bytes]) -> None:
        for body in bodies:
            await self._stream.publish(SUBJECT, body)

    def send_pipelined(self, body: bytes, count: int) -> None:
        self._loop.run(self._send_pipelined(body, count))

    async def _send_pipelined(self, body: bytes, count: int) -> None:
        for start in range(0, count, WINDOW):
            await asyncio.gather(*(self._stream.publish(SUBJECT, body) for _ in range(min(WINDOW, count - start))))

    def receive_and_confirm(self, count: int, seen: Callable[[bytes], object]) -> None:
        self._loop.run(self._receive_and_confirm(count, seen))

    async def _receive_and_confirm(self, count: int, seen: Callable[[bytes], object]) -> None:
        received = 0
        while received < count:
            for event in await self._pull.fetch(min(PREFETCH, count - received), timeout=5):
                seen(event.data)
                await event.ack()
                received += 1
        await self._nats.flush()

    def close(self) -> None:
        self._loop.run(self._nats.close())
        self._loop.close()


class JetStream:
    name = "NATS JetStream"
    one_by_one_count = 500
    pipelined_count = 5_000
    is_broker = True

    def __init__(self) -> None:
        self._child: Child | None = None

    def start(self, folder: Path) -> None:
        self._port = free_port()
        configuration = folder / "nats.conf"
        configuration.write_text(CONFIGURATION.format(port=self._port, folder=folder))
        self._child = Child([program("nats-server"), "--config", str(configuration)], folder)
        self._child.wait_until(lambda: accepts_connections(self._port))

    def connect(self) -> JetStreamClient:
        return JetStreamClient(self._port)

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop()
