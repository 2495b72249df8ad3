"""The engine's end of the answer link greets listeners of its domain, and nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.continuity.link import answer_server, frame
from holdfast.continuity.link.answer_server import AnswerServer, ListenerLink
from holdfast.continuity.link.frame import Frames, Goodbye, Hello, Message, Seen, Welcome
from tests.waiting import until

HELLO = Hello(frame.VERSION, "shop", "a", "north", "server", "store")


class Told:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.links: list[ListenerLink] = []
        self.messages: list[Message] = []
        self.gone: list[ListenerLink] = []

    def came(self, link: ListenerLink) -> None:
        self.links.append(link)

    def heard(self, link: ListenerLink, message: Message) -> None:
        self.messages.append(message)

    def went(self, link: ListenerLink) -> None:
        self.gone.append(link)


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._frames = Frames()

    def say(self, message: Message) -> None:
        self.writer.write(frame.encode(message))

    async def hear(self) -> list[Message]:
        """What comes next; nothing when the link has ended."""
        data = await self.reader.read(1 << 16)
        return list(self._frames.feed(data))


@asynccontextmanager
async def serving(told: Told) -> AsyncIterator[tuple[AnswerServer, Peer]]:
    server = AnswerServer(told, "shop", "e", "0123")
    _, port = await server.listen("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield server, Peer(reader, writer)
    finally:
        writer.close()
        await server.close()


async def test_a_listener_of_the_domain_is_welcomed_heard_and_missed() -> None:
    told = Told()
    async with serving(told) as (_, peer):
        peer.say(HELLO)
        peer.say(Seen("s"))
        assert await peer.hear() == [Welcome("e", "0123")]
        await until(lambda: told.messages, "the listener is heard")
        told.links[0].send(Seen("back"))
        assert await peer.hear() == [Seen("back")]
        peer.writer.close()
        await until(lambda: told.gone, "the listener is missed")

    assert told.messages == [Seen("s")] and told.gone == told.links


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (frame.encode(Seen("s")), "a link begins with Hello"),
        (frame.encode(Hello(99, "shop", "a", "", "server", "")), "speaks version 1"),
        (frame.encode(Hello(1, "bank", "a", "", "server", "")), "is of domain 'shop', not 'bank'"),
        (b"GET / HTTP/1.1\r\n\r\n", "over the limit"),
        (frame.encode(HELLO)[:-1] + b"\x00", "check sum"),
    ],
)
async def test_anybody_else_gets_a_reason_and_loses_the_link(said: bytes, reason: str) -> None:
    told = Told()
    async with serving(told) as (server, peer):
        peer.writer.write(said)
        [goodbye] = await peer.hear()
        assert isinstance(goodbye, Goodbye) and reason in goodbye.reason
        assert await peer.hear() == []
        await until(lambda: not server.links, "the link is gone")

    assert told.links == []


async def test_a_peer_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_server, "HELLO_SECONDS", 0.02)
    async with serving(Told()) as (_, peer):
        assert await peer.hear() == [Goodbye("no Hello came in time")]


async def test_only_so_many_links_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_server, "LINKS_MAX", 0)
    async with serving(Told()) as (_, peer):
        assert await peer.hear() == [Goodbye("this engine has 0 links already")]
