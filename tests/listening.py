"""Servers and listeners for tests of continuity: one in process that counts, one that says what it is told, and who listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast.continuity.answer import Answer, Head
from holdfast.continuity.listener.listener import Listener
from holdfast.continuity.request import Content
from tests.asking_engine import AskingEngine
from tests.raw_http_server import RawHttpServer, raw_http_server

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Account:
    """A server in process: counts what it is asked, and can be held, broken and slow."""

    def __init__(self) -> None:
        self.targets: list[str] = []
        self.running = 0
        self.running_max = 0
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.size = 0

    async def __call__(self, content: Content) -> Answer:
        self.targets.append(content.target)
        self.running += 1
        self.running_max = max(self.running_max, self.running)
        await self.go_on.wait()
        self.running -= 1
        body = f"{len(self.targets)}".encode() + b"x" * self.size
        return Answer(Head(200, [(b"date", b"today")], len(body)), body)


@asynccontextmanager
async def listening(url: str, call: Any, store: Path, **options: Any) -> AsyncIterator[Listener]:
    async with running(Listener(url, "shop", options.pop("server", "one"), call=call, store=store, **options)) as listener:
        yield listener


@asynccontextmanager
async def running(listener: Listener) -> AsyncIterator[Listener]:
    async with listener:
        task = asyncio.create_task(listener.run())
        yield listener
        listener.stop()
        await task


async def bodies(engine: AskingEngine, numbers: list[str]) -> list[bytes]:
    return [(await engine.answer(number)).body for number in numbers]


@asynccontextmanager
async def raw_account(*probed: bytes) -> AsyncIterator[tuple[RawHttpServer, list[bytes]]]:
    """A server that says one thing after the other, then `OK`. After nothing it ends the connection. Its probe says these states,
    the last one for ever."""
    said: list[bytes] = []
    states = list(probed)

    async def say(writer: asyncio.StreamWriter, asked: bytes) -> bool:
        if b"/probe" in asked:
            now = json_answer(b'{"state": "%s"}' % (states.pop(0) if len(states) > 1 else states[0]))
        else:
            now = said.pop(0) if said else OK
        writer.write(now)
        return bool(now)

    async with raw_http_server(say) as server:
        yield server, said


def json_answer(text: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)
