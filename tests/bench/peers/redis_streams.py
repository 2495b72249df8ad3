"""Redis Streams: append-only file, `appendfsync always`; redis-py; a stream with one group."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import redis

from examples.free_port import free_port
from tests.bench.child import Child, accepts_connections, program
from tests.bench.peer import PREFETCH, WAIT_SECONDS, WINDOW

STREAM = "events"
GROUP = "recipients"
BLOCK_MS = 5_000


class RedisClient:
    def __init__(self, port: int) -> None:
        self._redis: Any = redis.Redis(port=port, socket_timeout=WAIT_SECONDS)
        try:
            self._redis.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
        except redis.ResponseError as problem:  # another client was first
            if "BUSYGROUP" not in str(problem):
                raise

    def send_one_by_one(self, bodies: Iterable[bytes]) -> None:
        for body in bodies:
            self._redis.xadd(STREAM, {"body": body})

    def send_pipelined(self, body: bytes, count: int, window: int = WINDOW) -> None:
        for start in range(0, count, window):
            pipeline = self._redis.pipeline(transaction=False)
            for _ in range(min(window, count - start)):
                pipeline.xadd(STREAM, {"body": body})
            pipeline.execute()

    def receive_and_confirm(self, count: int, seen: Callable[[bytes], object]) -> None:
        received = 0
        while received < count:
            wanted = min(PREFETCH, count - received)
            answer = self._redis.xreadgroup(GROUP, "one", {STREAM: ">"}, count=wanted, block=BLOCK_MS)
            if not answer:
                raise RuntimeError(f"{count} events were to be received, and {received} came")
            entries = answer[0][1] if isinstance(answer, list) else answer[STREAM.encode()][0]
            for _, fields in entries:
                seen(fields[b"body"])
            self._redis.xack(STREAM, GROUP, *[identifier for identifier, _ in entries])
            received += len(entries)

    def close(self) -> None:
        self._redis.close()


class RedisStreams:
    name = "Redis Streams"
    one_by_one_count = 200
    pipelined_count = 30_000
    is_broker = True

    def __init__(self) -> None:
        self._child: Child | None = None

    def start(self, folder: Path) -> None:
        self._port = free_port()
        self._child = Child(
            [
                program("redis-server", "/usr/bin"), "--port", str(self._port), "--bind", "127.0.0.1", "--dir", str(folder),
                "--appendonly", "yes", "--appendfsync", "always", "--save", "",
            ],
            folder,
        )  # fmt: skip
        self._child.wait_until(lambda: accepts_connections(self._port))

    @property
    def connect(self) -> Callable[[], RedisClient]:
        return partial(RedisClient, self._port)

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop()
