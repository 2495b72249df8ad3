"""The HTTP caller: calls a server with a request, as its client would, over connections that are kept.

    caller = HttpCaller("http://127.0.0.1:8080")           or https://…, or http+unix://%2Frun%2Fshop.sock
    answer = await caller.call(content, timeout=10)        a whole answer; a `stream` is given it while it comes, if it takes long
    async for part in caller.call_in_parts(content):       its head, then bytes; the server waits while nobody takes them
        …

A request goes out as the client wrote it, but for four things: `Accept-Encoding` is left out, so that answers can be compared;
headers that concern one connection are left out; `Content-Length` is that of the body; `Host` is the client's, so that all
servers see the same one, and the server's own address if the client named none.

CallFailed says that there is no answer, and whether the server may have seen the request (`server_connection`). A request that
cannot be written as HTTP, such as one with a line break in a header, is answered with 400 here, alike at every listener.

A server that does not read the body of a request takes it for the next request. Where that is likely, after a body that the
method usually has not or that was answered with an error, the connection is not used again.

Bounds: `connections_max` connections, others wait; one that was idle for IDLE_SECONDS_MAX is not used again; a whole answer has
at most `answer_max` bytes, one that is streamed any number.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple, Protocol, Self
from urllib.parse import unquote, urlsplit

from holdfast.continuity.answer import Answer, Head
from holdfast.continuity.listener.server.server_connection import CallFailed, ServerConnection, Turns, passed_on
from holdfast.continuity.request import Content, Headers
from holdfast.errors import BadUrl

# Servers end idle connections after 2 s (gunicorn), 5 s (uvicorn, Node) or more. A request that meets the end is in doubt, so the
# end is not waited for.
IDLE_SECONDS_MAX = 1.0
CONNECTIONS_MAX = 128
ANSWER_BYTES_MAX = 64 << 20
TIMEOUT_S = 10.0
# A stream is given so much at once, and what there is when the server pauses for so long.
PART_BYTES = 256 << 10
PAUSE_SECONDS = 0.02
# Left out beside hop-by-hop headers: what is said anew here, and what makes answers differ.
_LEFT_OUT = frozenset((b"accept-encoding", b"content-length", b"expect", b"host", b"proxy-connection"))
_METHODS_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))


class Address(NamedTuple):
    """Where a server listens: host and port, or the path of a Unix socket."""

    host: str
    port: int
    path: str = ""
    is_tls: bool = False

    @property
    def authority(self) -> str:
        if self.path:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_tls else 80) else f"{host}:{self.port}"


def parse_address(url: str) -> Address:
    """The address in a URL; BadUrl says what to write."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as problem:
        raise BadUrl(f"{url!r:.80} is no URL of a server: {problem}") from problem
    if parts.scheme == "http+unix":
        path = unquote(parts.netloc) or parts.path
        if path:
            return Address("", 0, path)
    elif parts.scheme in ("http", "https") and parts.hostname and parts.path in ("", "/") and not (parts.query or parts.username):
        return Address(parts.hostname, port, is_tls=parts.scheme == "https")
    raise BadUrl(
        f"{url!r:.80} is no URL of a server; write http://HOST:PORT, https://HOST:PORT, or http+unix://%2Fpath%2Fof.sock"
    )


Told = Callable[[Answer | CallFailed], None]


class Stream(Protocol):
    """Takes an answer while it comes."""

    async def take(self, head: Head, body: bytes) -> None:
        """The head, and the next bytes of the body."""

    @property
    def body(self) -> bytes:
        """Everything that was taken, or nothing if that was too much to keep."""


class HttpCaller:
    """Calls one server. Use it in one loop; `close` ends its connections."""

    def __init__(
        self,
        url: str,
        *,
        connections_max: int = CONNECTIONS_MAX,
        answer_max: int = ANSWER_BYTES_MAX,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`tls`: the context for https; the system's authorities if it is not said."""
        self.url = url
        self.address = parse_address(url)
        self.tls = (tls or ssl.create_default_context()) if self.address.is_tls else None
        self._host = self.address.authority.encode()
        self._answer_max = answer_max
        self._idle: list[ServerConnection] = []  # the one used last is used next
        self._turns = Turns(connections_max)
        self._watched: set[ServerConnection] = set()  # of calls without a task, with one timer for all
        self._timer: asyncio.TimerHandle | None = None
        self._rests: set[asyncio.Task[None]] = set()  # of their answers that do not come at once
        # What is asked first on a new connection, if anything, and who hears the answer; CallFailed of it ends the connection.
        self.greeting: Callable[[], tuple[Content, Callable[[Answer], None]] | None] | None = None
        self.connections_made = 0  # a server that was started again is noticed by a new connection (continuity rule 12)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connections that nobody uses, and answers that are still coming."""
        for task in self._rests:
            task.cancel()
        await asyncio.gather(*self._rests, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()
        for connection in self._idle:
            connection.end()
        self._idle.clear()

    # --- calls -------------------------------------------------------------------------------------------------------

    async def call(
        self, content: Content, headers: Headers | None = None, timeout: float = TIMEOUT_S, stream: Stream | None = None
    ) -> Answer:
        """The whole answer. `headers` are added to those of the request, and replace those of the same name.

        With a `stream`, an answer that does not come at once is given to it while it comes, and `timeout` is how long the server
        may stand still.
        """
        request = written(content, headers or [], self._host)
        if request is None:
            return UNWRITABLE
        async with self._connection(timeout) as connection:
            body_max = self._answer_max if stream is None else None
            connection.begin(request, is_head=content.method == "HEAD", body_max=body_max)
            alarm = self._alarm(connection, timeout)
            try:
                if stream is not None and not (await connection.until_head() and connection.is_over):
                    alarm.cancel()
                    return Answer(connection.received_head, await self._streamed(connection, stream, timeout))
                body = await connection.until_over()
            finally:
                alarm.cancel()
            head = connection.received_head
        if stream is not None:
            return Answer(head, body)
        return Answer(head if head.length >= 0 else Head(head.status, head.headers, len(body)), body)

    @property
    def is_at_hand(self) -> bool:
        """Whether `call_at_once` can be used: a kept connection waits."""
        if (connection := self._kept() if self._turns.are_free else None) is not None:
            self._idle.append(connection)
        return connection is not None

    def call_at_once(self, content: Content, headers: Headers, timeout: float, stream: Stream, told: Told) -> bool:
        """Call without a task over a kept connection, and have the answer told; False, with nothing done, if there is none.

        It is the same call as `call` with a `stream`. An answer that comes whole is told in the turn of the loop that reads it.
        """
        if (connection := self._kept() if self._turns.are_free else None) is None:
            return False
        if (request := written(content, headers, self._host)) is None:
            self._idle.append(connection)
            told(UNWRITABLE)
            return True
        self._turns.take_at_once()
        self._watch(connection, asyncio.get_running_loop().time() + timeout)

        def heard() -> None:
            self._watched.discard(connection)
            if connection.is_over:
                return self._tell(connection, told, None)
            task = asyncio.ensure_future(self._rest(connection, stream, timeout, told))
            self._rests.add(task)
            return task.add_done_callback(self._rests.discard)

        connection.begin(request, is_head=content.method == "HEAD", heard=heard)
        return True

    async def _rest(self, connection: ServerConnection, stream: Stream, timeout: float, told: Told) -> None:
        """Go on with an answer that does not come at once."""
        try:
            body: bytes | None = await self._streamed(connection, stream, timeout)
        except CallFailed:
            body = None  # `_tell` finds the failure
        except BaseException:
            connection.end()
            self._release(connection)
            raise
        self._tell(connection, told, body)

    def _tell(self, connection: ServerConnection, told: Told, body: bytes | None) -> None:
        result = connection.failure or Answer(connection.received_head, connection.take_body() if body is None else body)
        self._release(connection)
        told(result)

    def _watch(self, connection: ServerConnection, deadline: float) -> None:
        """See that a call without a task ends in time. One timer serves all of them: most end long before."""
        connection.deadline = deadline
        self._watched.add(connection)
        if self._timer is not None and self._timer.when() > deadline:
            self._timer.cancel()
            self._timer = None
        self._timer = self._timer or asyncio.get_running_loop().call_at(deadline, self._look_at_time)

    def _look_at_time(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for connection in list(self._watched):
            if connection.deadline <= now:
                connection.fail("timed out", "no answer in time")
            else:
                self._watch(connection, connection.deadline)

    async def _streamed(self, connection: ServerConnection, stream: Stream, timeout: float) -> bytes:
        """Give a stream the body in parts; the whole body. A body that is small and comes soon is not given to the stream."""
        pieces: list[bytes] = []
        size, is_given = 0, False
        while True:
            chunk = await self._next(connection, timeout, PAUSE_SECONDS if pieces or not is_given else None)
            if chunk:
                pieces.append(chunk)
                size += len(chunk)
            elif chunk is not None and not is_given:
                return b"".join(pieces)
            if chunk is None or size >= PART_BYTES or not chunk:
                await stream.take(connection.received_head, b"".join(pieces))
                pieces, size, is_given = [], 0, True
            if chunk == b"":
                return stream.body

    async def _next(self, connection: ServerConnection, timeout: float, pause: float | None) -> bytes | None:
        """The next bytes; b"" at the end, None if the server pauses."""
        alarm = self._alarm(connection, timeout)
        try:
            async with asyncio.timeout(pause):
                return await connection.chunk()
        except TimeoutError:
            return None
        finally:
            alarm.cancel()

    async def call_in_parts(
        self, content: Content, headers: Headers | None = None, timeout: float = TIMEOUT_S
    ) -> AsyncGenerator[Head | bytes, None]:
        """The head of the answer, then its body as it comes. `timeout` is how long the server may stand still.

        The end of the iteration is the end of the answer; CallFailed in between means that it was cut. Use
        `contextlib.aclosing` around it if it may be left early.
        """
        request = written(content, headers or [], self._host)
        if request is None:
            yield UNWRITABLE.head
            yield UNWRITABLE.body
            return
        async with self._connection(timeout) as connection:
            connection.begin(request, is_head=content.method == "HEAD")
            alarm = self._alarm(connection, timeout)
            try:
                yield await connection.until_head()
                while True:
                    alarm.cancel()
                    alarm = self._alarm(connection, timeout)
                    chunk = await connection.chunk()
                    alarm.cancel()
                    if not chunk:
                        break
                    yield chunk
            finally:
                alarm.cancel()

    async def reach(self, timeout: float) -> bool:
        """Connect, and end it. CallFailed if the server takes none."""
        async with self._connection(timeout):
            return True

    def _alarm(self, connection: ServerConnection, timeout: float) -> asyncio.TimerHandle:
        sentence = f"no answer within {timeout:g} s"
        return asyncio.get_running_loop().call_later(timeout, connection.fail, "timed out", sentence)

    @property
    def idle(self) -> int:
        """Connections that wait for the next call."""
        return sum(connection.is_reusable for connection in self._idle)

    # --- connections -------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _connection(self, timeout: float) -> AsyncIterator[ServerConnection]:
        """A connection for one exchange. It is kept afterwards if the exchange ended as it should."""
        await self._turns.take()
        try:
            connection = self._kept() or await self._greeted(await self._connect(timeout), timeout)
        except BaseException:
            self._turns.give()
            raise
        try:
            yield connection
        finally:
            self._release(connection)

    def _release(self, connection: ServerConnection) -> None:
        """An exchange has ended: keep its connection if it ended as it should."""
        if connection.is_reusable:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.end()
        self._turns.give()

    async def _greeted(self, connection: ServerConnection, timeout: float) -> ServerConnection:
        """The connection after the greeting, or another if the server did not keep it. CallFailed if it said nothing."""
        greeting = self.greeting() if self.greeting is not None else None
        if greeting is None:
            return connection
        content, hear = greeting
        alarm = self._alarm(connection, timeout)
        try:
            connection.begin(written(content, [], self._host) or b"", is_head=False, body_max=self._answer_max)
            body = await connection.until_over()
            hear(Answer(connection.received_head, body))
        except BaseException as problem:
            connection.end()
            if isinstance(problem, CallFailed):  # the request itself was not sent
                raise CallFailed("refused", f"{self.url}{content.target}: {problem}") from problem
            raise
        finally:
            alarm.cancel()
        if connection.is_reusable:
            return connection
        connection.end()
        return await self._connect(timeout)

    def _kept(self) -> ServerConnection | None:
        too_old = asyncio.get_running_loop().time() - IDLE_SECONDS_MAX
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable and connection.idle_since > too_old:
                return connection
            connection.end()
        return None

    async def _connect(self, timeout: float) -> ServerConnection:
        loop, address = asyncio.get_running_loop(), self.address
        try:
            async with asyncio.timeout(timeout):
                if address.path:
                    _, connection = await loop.create_unix_connection(lambda: ServerConnection(loop), address.path)
                else:
                    _, connection = await loop.create_connection(
                        lambda: ServerConnection(loop), address.host, address.port, ssl=self.tls
                    )
        except TimeoutError as problem:
            raise CallFailed("refused", f"{self.url} takes no connection within {timeout:g} s") from problem
        except OSError as problem:
            raise CallFailed("refused", f"{self.url} takes no connection: {problem}") from problem
        self.connections_made += 1
        return connection


def written(content: Content, extra: Headers, host: bytes) -> bytes | None:
    """The request as it goes over the wire; None if it cannot be written as HTTP."""
    left_out = _LEFT_OUT.union([name for name, _ in extra]) if extra else _LEFT_OUT
    host = next((value for name, value in content.headers if name == b"host"), host)
    lines = [b"%s %s HTTP/1.1" % (content.method.encode(), content.target.encode()), b"host: " + host]
    lines += [b"%s: %s" % each for each in passed_on(content.headers) if each[0] not in left_out]
    lines += [b"%s: %s" % each for each in extra]
    if content.body or content.method in _METHODS_WITH_BODY:
        lines.append(b"content-length: %d" % len(content.body))
    head = b"\r\n".join(lines)
    if head.count(b"\n") != len(lines) - 1 or head.count(b"\r") != len(lines) - 1 or b"\0" in head or lines[0].count(b" ") != 2:
        return None
    return b"%s\r\n\r\n%s" % (head, content.body)


# The answer to a request that cannot be written.
_UNWRITABLE_TEXT = b"This request cannot be written as HTTP.\n"
UNWRITABLE = Answer(Head(400, [(b"content-type", b"text/plain")], len(_UNWRITABLE_TEXT)), _UNWRITABLE_TEXT)
