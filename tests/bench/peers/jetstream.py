"""NATS JetStream: one server, file storage, `sync_interval: always`; nats-py; a stream with one durable push consumer.

Pushed, not pulled: nats-py's `fetch` asks anew for every few events, and took twice as long to receive the same.

Two ways to send many: publish each and wait for its acknowledgement, up to a window of them; or in atomic batches (since 2.12),
of which the last event is acknowledged for all. A batch is synced once, so that this is its faster way by far.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import nats
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg
from nats.js.api import StorageType, StreamConfig
from nats.js.client import JetStreamContext

from examples.free_port import free_port
from tests.bench.child import Child, accepts_connections, program
from tests.bench.peer import WAIT_SECONDS, WINDOW
from tests.bench.peers.looped import Loop

STREAM = "EVENTS"
SUBJECT = "events"
# The most that a server takes in one atomic batch, and batches under way: with more it was not faster.
BATCH_EVENTS = 1_000
BATCHES_UNDER_WAY = 4
CONFIGURATION = """
listen: "127.0.0.1:{port}"
jetstream: {{ store_dir: "{folder}/store", sync_interval: "always" }}
"""


class JetStreamClient:
    def __init__(self, port: int) -> None:
        self._loop = Loop()
        self._nats, self._stream = self._loop.run(self._open(port))

    async def _open(self, port: int) -> tuple[Nats, JetStreamContext]:
        connection = await nats.connect(f"nats://127.0.0.1:{port}")
        stream = connection.jetstream(timeout=WAIT_SECONDS)
        await stream.add_stream(StreamConfig(name=STREAM, subjects=[SUBJECT], storage=StorageType.FILE, allow_atomic=True))
        return connection, stream

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
        left, is_done = count, asyncio.get_running_loop().create_future()

        async def take(event: Msg) -> None:
            nonlocal left
            seen(event.data)
            await event.ack()
            left -= 1
            if left == 0:
                is_done.set_result(None)

        pushed = await self._stream.subscribe(SUBJECT, durable="recipient", manual_ack=True, cb=take)
        await is_done
        await pushed.unsubscribe()
        await self._nats.flush()

    def close(self) -> None:
        self._loop.run(self._nats.close())
        self._loop.close()


class AtomicBatchesClient(JetStreamClient):
    """Sends many events in atomic batches: plain publishes with headers, of which the last commits."""

    async def _send_pipelined(self, body: bytes, count: int) -> None:
        commits: deque[asyncio.Task[Msg]] = deque()
        for start in range(0, count, BATCH_EVENTS):
            events, batch = min(BATCH_EVENTS, count - start), uuid.uuid4().hex
            for number in range(1, events):
                headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
                await self._nats.publish(SUBJECT, body, headers=headers)
            last = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(events), "Nats-Batch-Commit": "1"}
            commits.append(asyncio.create_task(self._nats.request(SUBJECT, body, timeout=WAIT_SECONDS, headers=last)))
            if len(commits) == BATCHES_UNDER_WAY:
                _check_committed(await commits.popleft())
        for commit in commits:
            _check_committed(await commit)


def _check_committed(answer: Msg) -> None:
    told = json.loads(answer.data)
    if not told.get("count"):
        raise RuntimeError(f"an atomic batch was not stored: {told}")


class JetStream:
    name = "NATS JetStream"
    one_by_one_count = 200
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

    @property
    def port(self) -> int:
        return self._port

    @property
    def connect(self) -> Callable[[], JetStreamClient]:
        return partial(JetStreamClient, self._port)

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop()


class AtomicBatches(JetStream):
    """The same server; its client sends in atomic batches."""

    name = "NATS JetStream, atomic batches"
    pipelined_count = 40_000

    @property
    def connect(self) -> Callable[[], JetStreamClient]:
        return partial(AtomicBatchesClient, self._port)
