"""Load over HTTP: one client that asks again and again, and many at once. The connections are kept."""

from __future__ import annotations

import asyncio
import http.client
import time
from collections.abc import Callable
from typing import cast

import httptools
import uvloop

BODY = b"x" * 256
TIMEOUT_S = 30.0
MANY_S_MAX = 120.0
GOOD = range(200, 300)


class NoAnswer(Exception):
    """A connection ended, or was refused: the request may be sent again, also elsewhere."""


class OneClient:
    """A client with one connection, which it makes again when it was lost."""

    def __init__(self, port: int, timeout_s: float = TIMEOUT_S) -> None:
        self.port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)

    def ask(self, method: str, path: str, key: str = "") -> tuple[int, bytes]:
        """The status and the body. NoAnswer if there is none."""
        try:
            headers = {"idempotency-key": key} if key else {}
            self._connection.request(method, path, BODY if method == "POST" else None, headers)
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as problem:
            self._connection.close()
            raise NoAnswer(str(problem)) from problem

    def close(self) -> None:
        self._connection.close()


def latencies_ms(port: int, method: str, path: str, count: int) -> list[float]:
    """How long each of so many requests took, one after the other, in order of length."""
    client, taken = OneClient(port), []
    client.ask(method, path)
    for _ in range(count):
        begun = time.perf_counter()
        status, _body = client.ask(method, path)
        taken.append((time.perf_counter() - begun) * 1e3)
        if status not in GOOD:
            raise RuntimeError(f"{method} {path} at port {port} was answered with {status}")
    client.close()
    return sorted(taken)


def p50(taken: list[float]) -> float:
    return taken[len(taken) // 2]


def p99(taken: list[float]) -> float:
    return taken[int(len(taken) * 0.99)]


class _Asking(asyncio.Protocol):
    def __init__(self, next_request: Callable[[], bytes | None]) -> None:
        self._next = next_request
        self._said = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._go_on()

    def _go_on(self) -> None:
        request = self._next()
        if request is None:
            self.done.set_result(None)
            self._transport.close()
        else:
            self._parser = httptools.HttpResponseParser(self)
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._said = body

    def on_message_complete(self) -> None:
        if (status := self._parser.get_status_code()) not in GOOD:
            self.done.set_exception(RuntimeError(f"a request was answered with {status}: {self._said!r:.200}"))
            self._transport.close()
        else:
            self._go_on()

    def connection_lost(self, problem: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError(f"a connection was lost: {problem}"))


def requests_a_second(port: int, method: str, path: Callable[[int], str], count: int, clients: int) -> float:
    """How many requests a second so many clients get answered, each asking again when it has its answer."""
    numbers = iter(range(count))

    def next_request() -> bytes | None:
        number = next(numbers, None)
        if number is None:
            return None
        body = BODY if method == "POST" else b""
        length = f"content-length: {len(body)}\r\n" if body else ""
        return f"{method} {path(number)} HTTP/1.1\r\nhost: bench\r\n{length}\r\n".encode() + body

    return rate_of(port, next_request, count, clients)


def rate_of(port: int, next_request: Callable[[], bytes | None], count: int, clients: int) -> float:
    """The same for requests of any kind; None is the end of them."""

    async def run() -> float:
        begun = time.perf_counter()
        loop = asyncio.get_running_loop()
        made = [await loop.create_connection(lambda: _Asking(next_request), "127.0.0.1", port) for _ in range(clients)]
        async with asyncio.timeout(MANY_S_MAX):
            await asyncio.gather(*(each.done for _, each in made))
        return count / (time.perf_counter() - begun)

    return uvloop.run(run())
