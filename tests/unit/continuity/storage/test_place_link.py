"""The link to a place: whole answers, broken ones, and connections that are used again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.continuity.storage.place_link import LinkBroken, PlaceLinks

Say = Callable[[bytes, asyncio.StreamWriter], Coroutine[Any, Any, bool]]


@asynccontextmanager
async def serving(say: Say) -> AsyncIterator[tuple[str, list[int]]]:
    """A server that says something to each request; its address, and the connections it has seen."""
    connections: list[int] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(len(connections))
        try:
            while await say(await reader.readuntil(b"\r\n\r\n"), writer):
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", connections
    finally:
        server.close()


def saying(text: bytes, *, goes_on: bool = True) -> Say:
    async def say(asked: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(text)
        return goes_on

    return say


LENGTH = b'HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{"a":1}'
CHUNKED = b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n'


@pytest.mark.parametrize("text", [LENGTH, CHUNKED])
async def test_whole_answers_come_over_one_connection(text: bytes) -> None:
    links = PlaceLinks()
    async with serving(saying(text)) as (address, connections):
        for _ in range(3):
            assert await links.json(address, "/x") == (200, {"a": 1})
        links.close()

    assert connections == [0]


@pytest.mark.parametrize("text", [LENGTH[:-1], CHUNKED[:-1], CHUNKED[:-12], LENGTH[:20], b"nonsense\r\n\r\n", b""])
async def test_an_answer_that_is_not_whole_is_no_answer(text: bytes) -> None:
    links = PlaceLinks()
    async with serving(saying(text, goes_on=False)) as (address, _):
        with pytest.raises(LinkBroken):
            await links.json(address, "/x")


async def test_a_connection_that_was_closed_meanwhile_is_not_noticed() -> None:
    links = PlaceLinks()
    async with serving(saying(LENGTH, goes_on=False)) as (address, connections):
        for _ in range(3):
            assert await links.json(address, "/x") == (200, {"a": 1})
        links.close()

    assert len(connections) == 3


async def test_nobody_at_the_address_is_a_broken_link() -> None:
    links = PlaceLinks()
    for address in ("127.0.0.1:1", "127.0.0.1:no", ""):
        with pytest.raises(LinkBroken):
            await links.json(address, "/x")


async def test_an_upload_is_sent_in_chunks_and_its_refusal_is_a_broken_link() -> None:
    body: list[bytes] = []
    status = 200

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        while size := int(await reader.readline(), 16):
            body.append((await reader.readexactly(size + 2))[:-2])
        writer.write(LENGTH.replace(b"200", b"%d" % status))
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    links, address = PlaceLinks(), f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    upload = await links.upload(address, "/staged")
    await upload.send(b"one")
    await upload.send(b"two")
    assert await upload.finish(5) == {"a": 1}
    assert body == [b"one", b"two"]

    status = 507
    upload = await links.upload(address, "/staged")
    with pytest.raises(LinkBroken, match="507"):
        await upload.finish(5)
    server.close()
