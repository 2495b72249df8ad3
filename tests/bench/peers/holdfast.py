"""Holdfast itself, through its public interface: a server in a process of its own, and embedded in this one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import holdfast
from examples.free_port import free_port
from tests.bench.child import Child, accepts_connections, anonymous_memory_bytes
from tests.bench.peers.looped import Loop

QUEUE = "events"


class HoldfastClient:
    def __init__(self, url: str) -> None:
        self.loop = Loop()
        self.client = holdfast.connect(url)
        self.loop.run(self.client.open())

    def send_one_by_one(self, bodies: Iterable[bytes]) -> None:
        self.loop.run(self._send_one_by_one(bodies))

    async def _send_one_by_one(self, bodies: Iterable[bytes]) -> None:
        queue = self.client.queue(QUEUE)
        for body in bodies:
            await queue.send(body)

    def send_pipelined(self, body: bytes, count: int) -> None:
        self.loop.run(self._send_pipelined(body, count))

    async def _send_pipelined(self, body: bytes, count: int) -> None:
        async with self.client.queue(QUEUE).pipeline() as pipeline:
            for _ in range(count):
                await pipeline.send(body)

    def send_in_transactions(self, body: bytes, events: int, count: int) -> None:
        self.loop.run(self._send_in_transactions(body, events, count))

    async def _send_in_transactions(self, body: bytes, events: int, count: int) -> None:
        for _ in range(count):
            async with self.client.transaction() as transaction:
                queue = transaction.queue(QUEUE)
                for _ in range(events):
                    await queue.send(body)

    def receive_and_confirm(self, count: int, seen: Callable[[bytes], object]) -> None:
        self.loop.run(self._receive_and_confirm(count, seen))

    def receive_and_confirm_with_credit(self, credit: int, count: int, seen: Callable[[bytes], object]) -> None:
        self.loop.run(self._receive_and_confirm(count, seen, credit=credit))

    async def _receive_and_confirm(self, count: int, seen: Callable[[bytes], object], **options: int) -> None:
        received = 0
        async with self.client.queue(QUEUE).receive(**options) as incoming:  # type: ignore[arg-type]
            async for event in incoming:
                seen(event.data)
                await event.confirm()
                received += 1
                if received == count:
                    break

    def receive_and_confirm_by_batches(self, count: int, seen: Callable[[bytes], object]) -> None:
        self.loop.run(self._receive_and_confirm_by_batches(count, seen))

    async def _receive_and_confirm_by_batches(self, count: int, seen: Callable[[bytes], object]) -> None:
        received = 0
        async with self.client.queue(QUEUE).receive() as incoming:
            async for batch in incoming.batches():
                for data in batch.data:
                    seen(data)
                await batch.confirm()
                received += len(batch)
                if received == count:
                    break

    def close(self) -> None:
        self.loop.run(self.client.close())
        self.loop.close()


class Server:
    """`holdfast serve` as a child."""

    name = "Holdfast"
    one_by_one_count = 200
    pipelined_count = 300_000
    is_broker = True

    def __init__(self, *options: str) -> None:
        self._options = options
        self._child: Child | None = None

    def start(self, folder: Path) -> None:
        self.port = free_port()
        self.data = folder / "data"
        address = f"127.0.0.1:{self.port}"
        self._child = Child(
            [sys.executable, "-m", "holdfast.cli.main", "serve", "--data", str(self.data), "--listen", address, *self._options],
            folder,
        )
        self._child.wait_until(lambda: accepts_connections(self.port))

    @property
    def url(self) -> str:
        return f"holdfast://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    @property
    def memory_bytes(self) -> int:
        assert self._child is not None
        return anonymous_memory_bytes(self._child.pid)

    @property
    def connect(self) -> Callable[[], HoldfastClient]:
        return partial(HoldfastClient, self.url)

    def kill(self) -> None:
        """As a crash would: nothing is closed in good order."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop()
            self._child = None


class Embedded:
    name = "Holdfast embedded"
    one_by_one_count = 200
    pipelined_count = 300_000
    is_broker = False

    def start(self, folder: Path) -> None:
        self._folder = folder / "data"

    @property
    def connect(self) -> Callable[[], HoldfastClient]:
        return partial(HoldfastClient, f"file:{self._folder}")

    def stop(self) -> None:
        """It ran in its client."""
