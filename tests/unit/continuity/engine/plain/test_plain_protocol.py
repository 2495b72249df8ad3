"""The connections of an engine's clients: plain requests and others on one connection, in order, whole or refused."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from uvicorn.server import ServerState

from holdfast.continuity.answer import Answer, Head
from holdfast.continuity.domain import Domain, Route
from holdfast.continuity.engine.application import Application
from holdfast.continuity.engine.front import configured
from holdfast.continuity.engine.plain.plain_protocol import PlainCycle, PlainProtocol
from holdfast.continuity.request import Content
from tests.fronted_engine import Fronted, fronted_engine
from tests.listening import listening
from tests.waiting import until

_numbers = itertools.count()


async def echo(content: Content) -> Answer:
    """Tell what was asked; headers of the request that are named `x-answer-…` become headers of the answer."""
    body = f"{content.method} {content.target} {len(content.body)}".encode() if content.method != "HEAD" else b""
    headers = [(name[9:], value) for name, value in content.headers if name.startswith(b"x-answer-")]
    if content.target.endswith("/evil"):
        headers.append((b"x", b"a\r\nb: c"))
    return Answer(Head(200, headers, len(body)), body)


@asynccontextmanager
async def fronted(tmp_path: Path) -> AsyncIterator[Fronted]:
    url = f"memory:plain-{next(_numbers)}"
    domain = Domain(name="shop", routes=(Route("/r/*"), Route("/one/*", send="hedged")))
    async with fronted_engine(url, domain) as front, listening(url, echo, tmp_path / "1", server="one"):
        await until(lambda: len(front.engine.servers.current()) == 1, "it is current")
        yield front


async def said(front: Fronted, *sent: bytes, last: bytes) -> bytes:
    """Everything that comes on one connection, up to the last that is awaited."""
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    got = b""
    try:
        for each in sent:
            writer.write(each)
            await writer.drain()
        async with asyncio.timeout(10):
            while last not in got and (data := await reader.read(65536)):
                got += data
    finally:
        writer.close()
        await writer.wait_closed()
    return got


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "host: x", *headers, "", ""]).encode()


@pytest.mark.parametrize("path", ["/r/7?a=1", "/one/7", "/write"])
async def test_reads_hedged_reads_and_writes_are_answered_with_a_length_and_a_number(tmp_path: Path, path: str) -> None:
    async with fronted(tmp_path) as front:
        got = await said(front, get(path), last=f"GET {path} 0".encode())

        head, _, body = got.partition(b"\r\n\r\n")
        assert body == f"GET {path} 0".encode()
        assert f"content-length: {len(body)}".encode() in head and b"holdfast-transaction: " in head


async def test_requests_that_come_together_are_answered_in_their_order(tmp_path: Path) -> None:
    async with fronted(tmp_path) as front:
        asked = [f"/{kind}/{number}" for number in range(10) for kind in ("r", "w")]

        got = await said(front, b"".join(map(get, asked)), last=b"GET /w/9 0")

        assert re.findall(rb"GET (/[rw]/\d) 0", got) == [path.encode() for path in asked]


async def test_a_request_that_comes_in_pieces_is_taken_when_it_is_whole(tmp_path: Path) -> None:
    async with fronted(tmp_path) as front:
        whole = b"POST /w HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n0123456789"

        got = await said(front, *(whole[n : n + 7] for n in range(0, len(whole), 7)), last=b"POST /w 10")

        assert b"POST /w 10" in got


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"POST /w HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n", b"POST /w 5"),
        (b"POST /w HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n" + bytes(100_000), b"POST /w 100000"),
        (get("/r/1", "connection: close"), b"GET /r/1 0"),
        (b"GET /r/1 HTTP/1.0\r\nhost: x\r\n\r\n", b"GET /r/1 0"),
        (b"POST /w HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\nx", b"POST /w 1"),
        (get("http://x/r/1"), b"GET /r/1 0"),
        (get("/r/1?"), b"GET /r/1 0"),
        (get("/r/" + "a" * 70_000), b"Invalid HTTP request received."),
    ],
)
async def test_what_is_not_plain_goes_the_long_way_and_is_answered_alike(tmp_path: Path, sent: bytes, told: bytes) -> None:
    async with fronted(tmp_path) as front:
        assert told in await said(front, sent, last=told)


@pytest.mark.parametrize("path", ["/r/1", "/w"])
async def test_a_body_in_an_unknown_coding_is_refused_and_the_connection_goes_on(tmp_path: Path, path: str) -> None:
    async with fronted(tmp_path) as front:
        coded = f"POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n1\r\na\r\n0\r\n\r\n".encode()

        got = await said(front, coded, get("/r/2"), last=b"GET /r/2 0")

        assert got.startswith(b"HTTP/1.1 501 ") and b"Transfer-Encoding: gzip, chunked is not understood" in got
        assert b"POST" not in got and b"GET /r/2 0" in got  # no server has seen the first


async def test_a_body_in_an_unknown_coding_is_refused_under_any_asgi_server(tmp_path: Path) -> None:
    told: list[Any] = []
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/w",
        "headers": [(b"Transfer-Encoding", b"gzip"), (b"transfer-encoding", b"chunked")],
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"a"}

    async def send(message: Any) -> None:
        told.append(message)

    async with fronted(tmp_path) as front:
        await Application(front.engine)(scope, receive, send)

    assert told[0]["status"] == 501


async def test_a_head_request_has_no_body_and_the_connection_goes_on(tmp_path: Path) -> None:
    async with fronted(tmp_path) as front:
        head = b"HEAD /r/1 HTTP/1.1\r\nhost: x\r\nx-answer-content-length: 99\r\n\r\n"

        got = await said(front, head + get("/r/2"), last=b"GET /r/2 0")

        first, _, second = got.partition(b"\r\n\r\n")
        assert b"content-length: 99" in first and second.startswith(b"HTTP/1.1 200") and b"GET /r/2 0" in second


async def test_a_refused_head_request_has_no_body_and_the_connection_goes_on(tmp_path: Path) -> None:
    async with fronted(tmp_path) as front:
        head = f"HEAD /w HTTP/1.1\r\nhost: x\r\nidempotency-key: {'k' * 256}\r\n\r\n".encode()

        got = await said(front, head + get("/r/2"), last=b"GET /r/2 0")

        assert got.startswith(b"HTTP/1.1 400 ") and got.partition(b"\r\n\r\n")[2].startswith(b"HTTP/1.1 200 ")


async def test_a_trailer_is_no_header(tmp_path: Path) -> None:
    async with fronted(tmp_path) as front:
        sent = b"POST /w HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx-answer-user: root\r\n\r\n"

        got = await said(front, sent, last=b"POST /w 1")

        assert b"POST /w 1" in got and b"root" not in got


async def test_a_client_that_takes_no_answers_gets_no_further_ones(tmp_path: Path) -> None:
    """Answers that nobody takes would fill the memory of the engine: the long way waits until the client has taken some."""
    made: list[PlainProtocol] = []
    async with fronted(tmp_path) as front:
        config = configured(Application(front.engine))
        config.load()

        def make() -> PlainProtocol:
            made.append(PlainProtocol(config, ServerState(), {}))
            return made[0]

        def is_plain() -> bool:
            return isinstance(cast(object, made[0].cycle), PlainCycle)

        async with await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(get("/r/1"))
            await reader.readuntil(b"GET /r/1 0")
            assert is_plain()

            made[0].pause_writing()
            writer.write(get("/r/2"))
            await until(lambda: not is_plain(), "it goes the long way")
            made[0].resume_writing()

            await reader.readuntil(b"GET /r/2 0")
            writer.close()


async def test_a_header_that_would_end_the_head_early_makes_502(tmp_path: Path) -> None:
    async with fronted(tmp_path) as front:
        assert (await said(front, get("/r/evil"), last=b"written\n")).startswith(b"HTTP/1.1 502 ")


async def test_a_key_that_is_too_long_and_no_http_are_refused(tmp_path: Path) -> None:
    async with fronted(tmp_path) as front:
        assert (await said(front, get("/w", f"idempotency-key: {'k' * 256}"), last=b"taken\n")).startswith(b"HTTP/1.1 400 ")
        assert (await said(front, b"\0\0\r\n\r\n", last=b"received.")).startswith(b"HTTP/1.1 400 ")


async def test_an_engine_without_servers_refuses_and_keeps_the_connection(tmp_path: Path) -> None:
    async with fronted(tmp_path) as front:
        front.engine.servers.leave(next(iter(front.engine.servers)).link)

        for path in ("/r/1", "/w"):
            got = await said(front, get(path) + get(path), last=b"later\nHTTP/1.1 503 ")
            assert got.count(b"HTTP/1.1 503 ") == 2 and b"retry-after: " in got


async def test_a_client_that_leaves_before_the_answer_harms_nobody(tmp_path: Path) -> None:
    async with fronted(tmp_path) as front:
        for _ in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", front.port)
            writer.write(get("/r/1"))
            await writer.drain()
            writer.transport.abort()

        assert b"GET /r/2 0" in await said(front, get("/r/2"), last=b"GET /r/2 0")
        await until(lambda: len(front.engine._under_way) == 0, "nobody waits for those that left")


async def test_a_fault_of_the_engine_cuts_the_connection_and_no_client_waits_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fronted(tmp_path) as front:

        async def fail(*_: object, **__: object) -> None:
            raise RuntimeError("a fault")

        monkeypatch.setattr(front.engine, "submit", fail)

        assert await said(front, get("/write"), last=b"never") == b""


async def test_a_write_of_an_open_session_needs_no_task_and_two_on_one_connection_are_answered_in_order(tmp_path: Path) -> None:
    url, go_on, called = f"memory:plain-{next(_numbers)}", asyncio.Event(), 0

    async def held(content: Content) -> Answer:
        nonlocal called
        called += 1
        if content.target == "/2":
            await go_on.wait()
        return await echo(content)

    async with fronted_engine(url, Domain(name="shop")) as front, listening(url, held, tmp_path / "1", server="one"):
        await until(lambda: len(front.engine.servers.current()) == 1, "it is current")
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        writer.write(b"POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
        await reader.readuntil(b"POST /1 0")
        writer.write(b"POST /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab")
        await until(lambda: called == 2, "the second is called")
        submitting = [each for each in asyncio.all_tasks() if "_submit" in repr(each.get_coro())]
        go_on.set()
        second = await reader.readuntil(b"POST /2 2")
        writer.close()
        await writer.wait_closed()

    assert submitting == []
    assert b"200 OK" in second and b"holdfast-transaction: " in second
