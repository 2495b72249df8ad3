"""Frames with something wrong in them, after login: whatever comes, everyone else is served, and no task ends unseen.

A long run says more of them, from a new seed (`tests.effort`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import TimedOut
from holdfast.node.settings import NodeSettings
from holdfast.wire.decoder import FrameDecoder
from holdfast.wire.frame import (
    MAGIC,
    VERSIONS,
    Answered,
    Attach,
    Credit,
    Deliver,
    Hello,
    Message,
    OpenProducer,
    OpenSession,
    encode_lead,
)
from holdfast.wire.frame import SessionOpened as Opened
from tests import effort
from tests.mutations import Mutations
from tests.running_server import RunningServer, start
from tests.waiting import turn_loop, until

SETTINGS = NodeSettings(session_grace_ms=300, start_grace_ms=300)
FRAMES = effort.rounds(short=600, long=20_000)
SEED = 10
FRAMES_A_LINK = 60
# A server that answers with all of these has understood some frames, refused some, and ended links.
HEARD = {"Answered", "Failed", "Receipted", "Deliver", "Goodbye"}


class Fuzzer:
    """Links that say hello, open a session, a producer and a receiver, as any client does; and then what comes of mutation."""

    def __init__(self, server: RunningServer, mutations: Mutations) -> None:
        self._port = server.port
        self._mutations = mutations
        self.heard: dict[str, int] = {}

    async def link(self, frames: int) -> int:
        """How many frames were said before the link ended."""
        said = 0
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._mutations.session = self._mutations.producer = ""
        listening = asyncio.create_task(self._listen(reader))
        try:
            for message, session in (
                (Hello(MAGIC, list(VERSIONS), "fuzz"), 0), (OpenSession(1), 1), (OpenProducer(2), 1),
                (Attach(3, 1, "q", "queue"), 1), (Credit(1, 50, 1 << 20), 1),
            ):  # fmt: skip
                writer.write(encode_lead(session, message, 0))
            await until(lambda: self._mutations.producer, "a producer is open")
            while said < frames and not listening.done():
                writer.write(self._mutations.next())
                said += 1
                if said % 4 == 0:
                    await writer.drain()
                    await turn_loop()
            return said
        except ConnectionError:
            return said
        finally:
            writer.close()
            await asyncio.wait([listening], timeout=5)
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        decoder = FrameDecoder()
        while data := await reader.read(1 << 16):
            for found in decoder.feed(data):
                self._note(found.message)

    def _note(self, message: Message) -> None:
        self.heard[type(message).__name__] = self.heard.get(type(message).__name__, 0) + 1
        if isinstance(message, Opened):
            self._mutations.session = message.session
        elif isinstance(message, Answered) and isinstance(message.value, dict) and "producer" in message.value:
            self._mutations.producer = message.value["producer"]
        elif isinstance(message, Deliver):
            self._mutations.position = message.slices[0].first


class Canary:
    """A client like any other, which is served throughout."""

    def __init__(self, url: str) -> None:
        self.round_trips = 0
        self._url = url

    async def sing(self) -> None:
        async with holdfast.connect(self._url) as client, client.queue("canary").receive() as incoming:
            while True:
                await client.queue("canary").send({"number": self.round_trips}, timeout=5)
                event = await incoming.next(timeout=5)
                assert event.data == {"number": self.round_trips}
                await event.confirm()
                await incoming.settled(timeout=5)
                self.round_trips += 1


async def everything_works(url: str) -> None:
    """Queues, topics with selectors, the dead and administration, after all that."""
    async with holdfast.connect(url) as client:
        for queue in ("q", "_DMQ"):
            async with client.queue(queue).browse() as events:
                async for event in events:
                    assert event.type is not None and event.position
        async with client.queue("q").receive(confirm="auto") as incoming:
            with contextlib.suppress(TimedOut):
                while True:
                    got = await incoming.next(timeout=0.2)
                    assert isinstance(got.data, bytes | int | str | None) and got.id and got.time
        await client.dead.purge(everything=True)
        answer = await client.queue("_ADMIN").request({}, type="holdfast.admin.status", timeout=10)
        assert answer.data["value"]["is_primary"]
        async with client.topic("after").subscribe(selector="type = 'x'") as incoming:
            await client.topic("after").send(1, type="x")
            assert (await incoming.next(timeout=5)).data == 1


@pytest.fixture
def complaints(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What was logged as a fault of ours. A refusal is none."""
    caplog.set_level(logging.INFO)
    return caplog.records


async def test_whatever_a_client_says_after_login_everyone_else_is_served(
    tmp_path: Path, complaints: list[logging.LogRecord]
) -> None:
    server = await start(tmp_path / "data", SETTINGS)
    async with holdfast.connect(server.url) as client:
        await client.create_topic("t")
        await client.create_subscription("t", "s")
        await client.create_subscription("t", "chosen", selector="type = 'x' OR a > 1")
    fuzzer, canary = Fuzzer(server, Mutations(effort.seed(SEED))), Canary(server.url)
    singing = asyncio.create_task(canary.sing())

    said = links = 0
    # Which answers come depends on when a link ends: go on for a while until there was one of each.
    while (said < FRAMES or (said < 10 * FRAMES and not fuzzer.heard.keys() >= HEARD)) and not singing.done():
        said += await fuzzer.link(FRAMES_A_LINK)
        links += 1

    singing.cancel()
    (end,) = await asyncio.gather(singing, return_exceptions=True)
    assert isinstance(end, asyncio.CancelledError), f"the canary was not served after {said} frames: {end!r}"
    assert canary.round_trips > 10
    assert server.node.messages.failure is None
    await everything_works(server.url)
    await server.crash()

    server = await start(tmp_path / "data", SETTINGS)
    await everything_works(server.url)
    await server.close()
    faults = [
        record.getMessage()
        for record in complaints
        if record.name in ("asyncio", "holdfast.supervision", "holdfast.link", "holdfast.bus")
    ]
    assert faults == [], f"of {said} frames on {links} links"
    assert fuzzer.heard.keys() >= HEARD
