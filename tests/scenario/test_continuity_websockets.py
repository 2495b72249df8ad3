"""WebSockets that are passed through to one current server, with a real client and real servers (23)."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import Server, ServerConnection, serve, unix_serve
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.http11 import Request, Response

from holdfast.continuity.domain import Domain, Route
from holdfast.continuity.link.socket_end import MESSAGE_BYTES_MAX, WINDOW_BYTES, SocketEnd
from holdfast.continuity.listener.listener import Listener
from tests.fronted_engine import Fronted, fronted_engine
from tests.listening import Account, listening
from tests.waiting import until

_numbers = itertools.count()
LIVE = Domain(name="shop", routes=(Route("/live/**", kind="stream"),), answer_timeout=5.0, call_timeout=5.0)
Handler = Callable[[ServerConnection], Awaitable[None]]


@pytest.fixture
def url() -> str:
    return f"memory:websockets-{next(_numbers)}"


async def echo(socket: ServerConnection) -> None:
    async for message in socket:
        await socket.send(message)


class Servers:
    """An engine before servers of WebSockets, each with what it was asked."""

    def __init__(self, front: Fronted) -> None:
        self.front = front
        self.servers: list[Server] = []
        self.asked: list[list[Request]] = []
        self.listeners: list[Listener] = []

    def ends(self, number: int) -> list[SocketEnd]:
        """The WebSockets that a listener passes through."""
        return list(self.listeners[number]._questions._sockets._ends.values())

    def connect(self, target: str = "/live/prices", **options: Any) -> connect:
        return connect(f"ws://127.0.0.1:{self.front.port}{target}", proxy=None, **options)

    @property
    def open(self) -> list[int]:
        """How many WebSockets each server has."""
        return [len(each.connections) for each in self.servers]


@asynccontextmanager
async def passing(url: str, tmp_path: Path, *handlers: Handler, **options: Any) -> AsyncIterator[Servers]:
    async with AsyncExitStack() as stack:
        passed = Servers(await stack.enter_async_context(fronted_engine(url, LIVE)))
        for number, handler in enumerate(handlers):
            asked: list[Request] = []
            server = await stack.enter_async_context(
                serve(handler, "127.0.0.1", 0, process_request=_noting(asked), compression=None, close_timeout=0.5, **options)
            )
            passed.servers.append(server)
            passed.asked.append(asked)
            where = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            listener = await stack.enter_async_context(listening(url, where, tmp_path / str(number), server=f"s{number}"))
            passed.listeners.append(listener)
        await until(lambda: len(passed.front.engine.servers.current()) == len(handlers), "all are current")
        yield passed


def _noting(asked: list[Request]) -> Callable[[ServerConnection, Request], None]:
    return lambda _, request: asked.append(request)


async def test_messages_pass_both_ways_between_a_client_and_one_server(url: str, tmp_path: Path) -> None:
    said: list[str | bytes] = ["grüß", b"\x00\xff", "", b"", "x" * MESSAGE_BYTES_MAX]
    async with passing(url, tmp_path, echo, echo) as passed, passed.connect(max_size=2 * MESSAGE_BYTES_MAX) as client:
        came = []
        for each in said:
            await client.send(each)
            came.append(await client.recv())
        open_at = sorted(passed.open)

    assert came == said
    assert open_at == [0, 1]  # at one server, not at both


async def test_the_server_sees_target_host_and_headers_of_the_client_and_chooses_the_subprotocol(
    url: str, tmp_path: Path
) -> None:
    headers = {"Authorization": "Bearer t", "Cookie": "a=1", "X-Twice": "2", "Holdfast-Transaction": "no"}
    async with passing(url, tmp_path, echo, subprotocols=["v2", "v1"]) as passed:
        async with passed.connect("/live/a%20b?day=1&x", additional_headers=headers, subprotocols=["v0", "v1"]) as client:
            chosen = client.subprotocol
        port = passed.front.port
        [request] = passed.asked[0]

    assert chosen == "v1"
    assert request.path == "/live/a%20b?day=1&x"
    assert request.headers.get_all("Host") == [f"127.0.0.1:{port}"]
    assert [request.headers.get(name) for name in headers] == ["Bearer t", "a=1", "2", None]


@pytest.mark.parametrize(("code", "reason"), [(1000, ""), (4000, "the market is closed"), (3001, "grüß")])
async def test_the_server_closes_and_the_client_sees_its_code_and_reason_after_the_last_message(
    url: str, tmp_path: Path, code: int, reason: str
) -> None:
    async def close(socket: ServerConnection) -> None:
        for number in range(20):
            await socket.send(f"{number}")
        await socket.close(code, reason)

    async with passing(url, tmp_path, close) as passed, passed.connect() as client:
        came = [each async for each in _until_closed(client)]

    assert came == [f"{number}" for number in range(20)]
    assert (client.close_code, client.close_reason) == (code, reason)


async def test_the_client_closes_and_the_server_sees_its_code_and_reason_after_the_last_message(url: str, tmp_path: Path) -> None:
    came: list[Any] = []
    closed: list[tuple[int | None, str | None]] = []

    async def take(socket: ServerConnection) -> None:
        came.extend([each async for each in _until_closed(socket)])
        closed.append((socket.close_code, socket.close_reason))

    async with passing(url, tmp_path, take) as passed:
        async with passed.connect() as client:
            for number in range(50):
                await client.send(f"{number}")
            await client.close(4001, "seen enough")
        await until(lambda: closed, "the server has seen the close")

    assert came == [f"{number}" for number in range(50)]
    assert closed == [(4001, "seen enough")]


async def _until_closed(socket: Any) -> AsyncIterator[Any]:
    while True:
        try:
            yield await socket.recv()
        except ConnectionClosed:
            return


async def test_pings_of_client_and_server_are_answered(url: str, tmp_path: Path) -> None:
    latencies: list[float] = []

    async def ping(socket: ServerConnection) -> None:
        latencies.append(await (await socket.ping()))
        await socket.wait_closed()

    async with passing(url, tmp_path, ping) as passed, passed.connect() as client:
        latencies.append(await asyncio.wait_for(await client.ping(), 60))
        await until(lambda: len(latencies) == 2, "the server has its pong")


async def test_a_client_that_takes_nothing_stops_its_server_costs_bounded_memory_and_holds_up_nobody_else(
    url: str, tmp_path: Path
) -> None:
    sent = 0

    async def flood(socket: ServerConnection) -> None:
        nonlocal sent
        assert socket.request is not None
        if socket.request.path == "/live/echo":
            return await echo(socket)
        for number in range(400):
            await socket.send(b"%d" % number + b"." * 256_000)
            sent += 1
        return None

    async with (
        passing(url, tmp_path, flood) as passed,
        passed.connect(max_queue=1, max_size=1 << 20) as client,
    ):
        [socket] = passed.front.engine.sockets._sockets.values()
        await until(lambda: any(each._untaken >= WINDOW_BYTES for each in passed.ends(0)), "the listener waits for room")
        held, standing = socket._held, sent
        async with passed.connect("/live/echo") as neighbour:
            await neighbour.send("and I?")
            assert await neighbour.recv() == "and I?"
        came = [int((await client.recv(decode=False)).rstrip(b".")) for _ in range(400)]

    assert held <= WINDOW_BYTES + MESSAGE_BYTES_MAX
    assert standing < 200  # the rest of it is in the buffers of sockets
    assert came == list(range(400))


async def test_a_message_over_the_limit_ends_it_with_1009_for_both(url: str, tmp_path: Path) -> None:
    async def large(socket: ServerConnection) -> None:
        await socket.send(b"x" * (MESSAGE_BYTES_MAX + 1))
        await socket.wait_closed()

    codes = []
    async with passing(url, tmp_path, large) as passed, passed.connect(max_size=None) as client:
        with pytest.raises(ConnectionClosed):
            await client.recv()
        codes.append(client.close_code)
    async with passing(f"{url}-b", tmp_path / "b", echo) as passed, passed.connect(max_size=None) as client:
        with pytest.raises(ConnectionClosed):
            await client.send(b"x" * (MESSAGE_BYTES_MAX + 1))
            await client.recv()
        codes.append(client.close_code)
        await until(lambda: passed.open == [0], "the server's is closed, too")

    assert codes == [1009, 1009]


# --- who is lost -----------------------------------------------------------------------------------------------------------


async def test_a_server_that_is_lost_closes_its_sockets_with_1012_and_the_client_comes_again_to_another(
    url: str, tmp_path: Path
) -> None:
    async def drop(socket: ServerConnection) -> None:
        await socket.send("one")
        await socket.recv()
        socket.transport.abort()

    async with passing(url, tmp_path, drop, drop) as passed:
        names = []
        for _ in range(2):
            async with passed.connect() as client:
                assert await client.recv() == "one"
                names.append(passed.open)
                await client.send("now")
                with pytest.raises(ConnectionClosed):
                    await client.recv()
            assert (client.close_code, client.close_reason) == (1012, "the server is lost; connect again")
            await until(lambda: passed.open == [0, 0], "it is closed")

    assert sorted(names) == [[0, 1], [1, 0]]  # in turn


async def test_a_listener_that_ends_closes_its_sockets_and_the_client_comes_again_to_another(url: str, tmp_path: Path) -> None:
    async with passing(url, tmp_path, echo) as passed, serve(echo, "127.0.0.1", 0) as second:
        where = f"http://127.0.0.1:{second.sockets[0].getsockname()[1]}"
        async with listening(url, where, tmp_path / "second", server="second"):
            await until(lambda: len(passed.front.engine.servers.current()) == 2, "both are current")
            clients = [await passed.connect() for _ in range(2)]
            assert (passed.open, len(second.connections)) == ([1], 1)
        closed = [await _closed(each) for each in clients if (await _is_closed_soon(each))]
        await until(lambda: len(passed.front.engine.servers.current()) == 1, "one is current")
        async with passed.connect() as again:
            await again.send("still there")
            came = await again.recv()
        for each in clients:
            await each.close()

    assert [code for code, _ in closed] == [1012]
    assert "connect again" in closed[0][1]
    assert came == "still there"


async def _is_closed_soon(client: Any) -> bool:
    """Whether it is closed from the other side: the one that is not still echoes."""
    try:
        await client.send("?")
        await client.recv()
    except ConnectionClosed:
        return True
    return False


async def _closed(client: Any) -> tuple[int, str]:
    await client.wait_closed()
    return client.close_code, client.close_reason


async def test_a_server_that_is_not_current_any_more_closes_its_sockets(url: str, tmp_path: Path) -> None:
    async with passing(url, tmp_path, echo) as passed, passed.connect() as client:
        passed.front.engine._lose("s0", "removed")
        with pytest.raises(ConnectionClosed):
            await client.recv()
        await until(lambda: passed.open == [0], "the server's is closed, too")

    assert (client.close_code, client.close_reason) == (1012, "server s0: it is not current any more; connect again")


# --- refusals ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _no_errors(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever happens to a WebSocket here is ordinary: no log of engine or listener has an error about it."""
    yield
    told = [each for each in caplog.get_records("call") if each.levelno >= logging.ERROR and each.name != "websockets.server"]
    assert [each.getMessage() for each in told] == []


async def _refused(passed: Servers, target: str = "/live/prices") -> InvalidStatus:
    with pytest.raises(InvalidStatus) as refused:
        await passed.connect(target)
    return refused.value


async def test_a_websocket_elsewhere_is_refused_with_501_and_no_server_hears_of_it(url: str, tmp_path: Path) -> None:
    async with passing(url, tmp_path, echo) as passed:
        refused = await _refused(passed, "/orders")

    assert refused.response.status_code == 501
    assert b"not declared as a stream" in bytes(refused.response.body or b"")
    assert passed.asked == [[]]


async def test_a_server_that_refuses_says_so_itself(url: str, tmp_path: Path) -> None:
    def refuse(connection: ServerConnection, _: Request) -> Response:
        response = connection.respond(HTTPStatus.UNAUTHORIZED, "who are you?\n")
        response.headers["WWW-Authenticate"] = "Bearer"
        return response

    async with (
        serve(echo, "127.0.0.1", 0, process_request=refuse) as server,
        fronted_engine(url, LIVE) as front,
        listening(url, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", tmp_path / "s"),
    ):
        await front.engine.until_ready(60)
        refused = await _refused(Servers(front))

    assert (refused.response.status_code, bytes(refused.response.body or b"")) == (401, b"who are you?\n")
    assert refused.response.headers["WWW-Authenticate"] == "Bearer"


async def test_without_a_current_server_it_is_503_and_a_server_without_websockets_is_passed_over(
    url: str, tmp_path: Path
) -> None:
    async with (
        fronted_engine(url, LIVE) as front,
        unix_serve(echo, str(tmp_path / "socket")),
    ):
        nobody = await _refused(Servers(front))
        async with listening(url, Account(), tmp_path / "handler", server="handler"):
            await front.engine.until_ready(60)
            cannot = await _refused(Servers(front))
            async with listening(url, f"http+unix://{tmp_path / 'socket'}", tmp_path / "real", server="real"):
                await until(lambda: len(front.engine.servers.current()) == 2, "both are current")
                for _ in range(2):  # the turn of each
                    async with Servers(front).connect() as client:
                        await client.send("hello")
                        assert await client.recv() == "hello"

    assert (nobody.response.status_code, nobody.response.headers["Retry-After"]) == (503, "1")
    assert (cannot.response.status_code, len(front.engine.sockets)) == (502, 0)
