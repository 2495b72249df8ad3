"""Calling servers as they are, and the bytes that go to them."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn

from holdfast.continuity.listener.server import http_caller
from holdfast.continuity.listener.server.http_caller import HttpCaller, parse_address, written
from holdfast.continuity.request import Content
from holdfast.errors import BadUrl
from tests.raw_http_server import raw_http_server, saying
from tests.server_process import free_port
from tests.waiting import until, wait_until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

# --- what is sent ------------------------------------------------------------------------------------------------------


def test_a_request_goes_out_as_it_came_but_for_its_connection_and_encoding() -> None:
    headers = [
        (b"host", b"shop.example"), (b"accept-encoding", b"gzip"), (b"connection", b"close, x-hop"), (b"x-hop", b"1"),
        (b"transfer-encoding", b"chunked"), (b"content-length", b"99"), (b"expect", b"100-continue"), (b"x-kept", b"2"),
    ]  # fmt: skip

    sent = written(Content("POST", "/a?b=c", headers, b"body"), [(b"x-extra", b"3")], b"server:80")

    assert sent == b"POST /a?b=c HTTP/1.1\r\nhost: shop.example\r\nx-kept: 2\r\nx-extra: 3\r\ncontent-length: 4\r\n\r\nbody"


def test_the_host_is_that_of_the_server_if_the_client_named_none_and_added_headers_replace_those_of_the_client() -> None:
    sent = written(Content("GET", "/", [(b"x-extra", b"forged")]), [(b"x-extra", b"3")], b"server:81")

    assert sent == b"GET / HTTP/1.1\r\nhost: server:81\r\nx-extra: 3\r\n\r\n"


@pytest.mark.parametrize(
    "content",
    [
        Content("GET", "/ HTTP/1.1\r\nx: y", []),
        Content("GET", "/a b", []),
        Content("GET", "/", [(b"x", b"1\r\ny: 2")]),
        Content("GET", "/", [(b"x", b"1\ny: 2")]),
        Content("GET\r\n", "/", []),
    ],
)
async def test_a_request_that_cannot_be_written_as_http_is_answered_with_400_and_not_sent(content: Content) -> None:
    async with raw_http_server(saying(OK)) as server, HttpCaller(server.url) as caller:
        answer, parts = await caller.call(content), [part async for part in caller.call_in_parts(content)]

    assert (answer.head.status, parts[0]) == (400, answer.head)
    assert server.requests == []


@pytest.mark.parametrize("url", ["ftp://h", "http://", "http://h/base", "http://u@h", "http://h:x", "http+unix://", "h:80", ""])
def test_a_url_that_is_not_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(BadUrl, match="is no URL of a server"):
        parse_address(url)


def test_a_url_names_a_port_or_a_socket() -> None:
    assert parse_address("http://[::1]:8080").authority == "[::1]:8080"
    assert parse_address("http://h").authority == "h"
    assert parse_address("http+unix://%2Frun%2Fa.sock").path == parse_address("http+unix:///run/a.sock").path == "/run/a.sock"


# --- servers as they are -------------------------------------------------------------------------------------------------


async def test_it_calls_the_server_of_the_standard_library(tmp_path: Path) -> None:
    (tmp_path / "hello.txt").write_text("hello")
    port = free_port()
    process = _standard_server(port, tmp_path)
    try:
        async with HttpCaller(f"http://127.0.0.1:{port}") as caller:
            found = [await caller.call(Content(method, path, [])) for method, path in
                     (("GET", "/hello.txt"), ("HEAD", "/hello.txt"), ("GET", "/"), ("GET", "/none"), ("POST", "/"))]  # fmt: skip
    finally:
        process.kill()
        process.wait()

    assert [answer.head.status for answer in found] == [200, 200, 200, 404, 501]
    assert [found[0].body, found[1].body] == [b"hello", b""] and b"hello.txt" in found[2].body


def _standard_server(port: int, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: _is_listening(port), "it listens")
    return process


def _is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


async def _echo(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
    if scope["type"] != "http":
        return
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-path", scope["path"].encode())]})
    await send({"type": "http.response.body", "body": message["body"], "more_body": True})
    await send({"type": "http.response.body", "body": b"!"})


@asynccontextmanager
async def _uvicorn(**where: object) -> AsyncIterator[None]:
    server = uvicorn.Server(uvicorn.Config(_echo, log_level="warning", lifespan="off", http="httptools", **where))  # type: ignore[arg-type]
    task = asyncio.create_task(server.serve())
    await until(lambda: server.started, "uvicorn listens")
    try:
        yield
    finally:
        server.should_exit = True
        await task


async def test_it_calls_uvicorn_over_tcp_and_over_a_unix_socket(tmp_path: Path) -> None:
    port, path = free_port(), f"{tmp_path}/u.sock"
    async with _uvicorn(port=port, host="127.0.0.1"), _uvicorn(uds=path):
        for url in (f"http://127.0.0.1:{port}", f"http+unix://{path}"):
            async with HttpCaller(url) as caller:
                answers = [await caller.call(Content("POST", f"/{each}", [], b"body")) for each in range(5)]
                parts = [part async for part in caller.call_in_parts(Content("POST", "/", [], b"body"))]

            assert [answer.body for answer in answers] == [b"body!"] * 5
            assert [dict(answer.head.headers)[b"x-path"] for answer in answers] == [b"/%d" % each for each in range(5)]
            assert b"".join(part for part in parts[1:] if isinstance(part, bytes)) == b"body!"
            assert caller.connections_made == 1


def test_an_idle_connection_is_given_up_before_the_shortest_keep_alive_of_common_servers() -> None:
    assert http_caller.IDLE_SECONDS_MAX < 2


@pytest.mark.parametrize(
    ("method", "said", "connections"),
    [
        ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 3),
        ("DELETE", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 3),
        ("POST", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 1),
        ("POST", b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", 3),
    ],
)
async def test_a_connection_is_not_used_again_after_a_body_that_the_server_may_not_have_read(
    method: str, said: bytes, connections: int
) -> None:
    """The server would take it for the next request, and do what no other server does."""
    async with raw_http_server(saying(said)) as server, HttpCaller(server.url) as caller:
        for _ in range(3):
            await caller.call(Content(method, "/", [], b"POST /evil HTTP/1.1\r\n\r\n"))

        assert server.connections == connections
