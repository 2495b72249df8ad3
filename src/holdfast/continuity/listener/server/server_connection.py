"""One connection to a server: a request goes out, its answer comes in, whole or in parts.

    begin(request) ─▶ wire ─▶ head ─▶ chunk, chunk … ─▶ end          and again, while the server keeps the connection
                                 │
                                 └─▶ fail(kind): the connection is ended and not used again

An answer is complete when its length or its last chunk says so. A connection that ends before is a failure, also where HTTP/1.0
would take the end of the connection for the end of the body: nobody can tell that from a server that died (line 22 of the
behaviour). The kinds of failure:

    refused     the connection was not made: the server has not seen the request
    reset       the connection ended before the head of the answer: the server may have processed the request
    timed out   no answer in time: the same
    cut         the answer began and did not end, or is no HTTP: the server has begun to answer

Memory: an answer that is read in parts holds BUFFER_BYTES, then the socket is not read until some were taken. A whole answer is
limited by its caller.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Literal, cast

import httptools

from holdfast.continuity.answer import HOP_BY_HOP, Head
from holdfast.continuity.request import Headers

FailureKind = Literal["refused", "reset", "timed out", "cut"]
# Bytes of an answer that are read ahead of whoever takes its parts.
BUFFER_BYTES = 256 << 10
# Bytes of status line and headers, trailers included.
HEAD_BYTES_MAX = 256 << 10
_WITHOUT_BODY = frozenset((204, 304))
_WITH_BODY = (b"POST ", b"PUT ", b"PATCH ")


class CallFailed(Exception):
    """A call has no answer. Only after `refused` is it certain that the server did not process the request."""

    def __init__(self, kind: FailureKind, reason: str) -> None:
        super().__init__(f"{kind}: {reason}")
        self.kind = kind
        self.reason = reason


class Turns:
    """So many may be taken at a time; further ones wait in their order. A turn can also be taken without waiting."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def are_free(self) -> bool:
        return self._free > 0

    def take_at_once(self) -> None:
        assert self._free > 0, "somebody looked before"
        self._free -= 1

    async def take(self) -> None:
        if self._free > 0:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give()
            raise

    def give(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                return turn.set_result(None)
        self._free += 1
        return None


class ServerConnection(asyncio.Protocol):
    """A connection. One exchange at a time; `is_reusable` tells whether there can be another."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._heard: Callable[[], None] | None = None
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._body_max: int | None = None
        self._is_paused = False
        self._headers: Headers = []
        self._head_bytes = 0
        self._is_head_request = False
        self._is_delimited = True
        self._has_body = self._has_odd_body = False  # of the request; odd: its method usually has none
        self._is_kept = False
        self._is_over = True  # no exchange is under way
        self._failure: CallFailed | None = None
        self.head: Head | None = None
        self.idle_since = 0.0
        self.deadline = 0.0  # of an exchange that nobody waits for in a task

    # --- the exchange ------------------------------------------------------------------------------------------------

    def begin(
        self, request: bytes, *, is_head: bool, body_max: int | None = None, heard: Callable[[], None] | None = None
    ) -> None:  # fmt: skip
        """Send a request. `is_head`: its answer has no body. `body_max`: the answer is wanted whole, and no larger than this.
        `heard` is called once, when the answer is whole, has failed, or has begun: after the first bytes with its head."""
        self._heard = heard
        self._parser = httptools.HttpResponseParser(self)
        self._chunks.clear()
        self._buffered, self._body_max = 0, body_max
        self._headers, self._head_bytes, self.head = [], 0, None
        self._is_head_request, self._is_over, self._is_kept = is_head, False, False
        self._has_body = request.find(b"\r\n\r\n") + 4 < len(request)
        self._has_odd_body = self._has_body and not request.startswith(_WITH_BODY)
        cast(asyncio.Transport, self._transport).write(request)

    async def until_head(self) -> Head:
        while self.head is None:
            await self._wait()
        return self.head

    @property
    def received_head(self) -> Head:
        """The head of an answer that is here."""
        assert self.head is not None
        return self.head

    async def until_over(self) -> bytes:
        """The whole body."""
        while not self._is_over:
            await self._wait()
        return self.take_body()

    def take_body(self) -> bytes:
        """The whole body of an exchange that is over. CallFailed if it has none."""
        self._raise_failure()
        body = b"".join(self._chunks)
        self._chunks.clear()
        return body

    @property
    def failure(self) -> CallFailed | None:
        """Why the exchange has no answer."""
        return self._failure

    @property
    def is_over(self) -> bool:
        """The exchange has ended, well or not."""
        return self._is_over

    async def chunk(self) -> bytes:
        """The next bytes of the body; b"" at its end. CallFailed once all that came has been taken."""
        while not self._chunks:
            if self._is_over:
                self._raise_failure()
                return b""
            await self._wait()
        chunk = self._chunks.popleft()
        self._buffered -= len(chunk)
        if self._is_paused and self._buffered <= BUFFER_BYTES // 2:
            self._is_paused = False
            cast(asyncio.Transport, self._transport).resume_reading()
        return chunk

    async def _wait(self) -> None:
        self._raise_failure()
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def is_reusable(self) -> bool:
        """The exchange is over, and the server keeps the connection."""
        transport = self._transport
        if not (self._is_over and self._is_kept) or self._failure is not None or transport is None or transport.is_closing():
            return False
        return not transport.get_write_buffer_size()  # it answered before it had read everything

    @property
    def buffered(self) -> int:
        """Bytes of the body that came and were not taken."""
        return self._buffered

    def fail(self, kind: FailureKind, reason: str) -> None:
        """End the connection; the exchange under way, if there is one, has no answer."""
        if not self._is_over:
            self._failure = self._failure or CallFailed(kind, reason)
        self._is_over, self._is_kept = True, False
        self.end()
        self._wake()
        self._tell()

    def end(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # --- from the transport ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._is_over or self._parser is None:
            return self.fail("cut", "the server sends what nobody asked for")
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.fail("cut", "the server changes the protocol")
        except httptools.HttpParserError as problem:
            self.fail("cut", f"the answer is no HTTP: {problem.__context__ or problem}")
        if self._buffered > BUFFER_BYTES and not self._is_over:
            self._limit()
        if self.head is not None:
            self._tell()
        return None

    def _tell(self) -> None:
        heard, self._heard = self._heard, None
        if heard is not None:
            heard()

    def _limit(self) -> None:
        """Hold no more: a whole answer that is too large fails, and one in parts waits until some were taken."""
        if self._body_max is None:
            self._is_paused = True
            cast(asyncio.Transport, self._transport).pause_reading()
        elif self._buffered > self._body_max:
            self.fail("cut", f"the answer has more than {self._body_max:,} bytes")

    def eof_received(self) -> bool:
        self._lost("the server ended the connection")
        return False

    def connection_lost(self, problem: Exception | None) -> None:
        self._lost(f"the connection was lost: {problem}" if problem else "the connection was closed")

    def _lost(self, reason: str) -> None:
        if self.head is None:
            return self.fail("reset", reason)
        if not self._is_delimited:
            reason = f"{reason}, and the answer has neither a length nor a last chunk, so its end cannot be told from a loss"
        return self.fail("cut", reason)

    # --- from the parser ---------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._is_over:  # a second answer to one request
            self._is_kept = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_BYTES_MAX:
            raise ValueError(f"its headers have more than {HEAD_BYTES_MAX:,} bytes")
        if self.head is None:  # otherwise a trailer
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        parser = cast(httptools.HttpResponseParser, self._parser)
        status = parser.get_status_code()
        if status < 200:
            self._headers.clear()
        elif self.head is None:
            self._begin_body(status, parser)

    def _begin_body(self, status: int, parser: httptools.HttpResponseParser) -> None:
        found = dict(self._headers)
        is_empty = self._is_head_request or status in _WITHOUT_BODY
        is_chunked = b"transfer-encoding" in found
        length = 0 if is_empty else -1 if is_chunked else int(found.get(b"content-length", -1))
        self._is_delimited = is_empty or is_chunked or length >= 0
        self._is_kept = self._is_delimited and (parser.should_keep_alive() or self._is_kept_after_head(parser, found))
        if self._has_odd_body or (self._has_body and status >= 400):
            self._is_kept = False  # it may not have read the body, and would take it for the next request
        self.head = Head(status, passed_on(self._headers), length)
        if self._is_head_request:  # the parser would wait for the body that the length announces
            self._is_over = True
        self._wake()

    def _is_kept_after_head(self, parser: httptools.HttpResponseParser, found: dict[bytes, bytes]) -> bool:
        """An answer to HEAD needs no length; the parser, which does not know of HEAD, would have the connection end."""
        is_closed = b"close" in found.get(b"connection", b"").lower() or parser.get_http_version() == "1.0"
        return self._is_head_request and not is_closed

    def on_body(self, body: bytes) -> None:
        if self._is_over:
            self._is_kept = False  # a body after the answer to HEAD
            return
        self._chunks.append(body)
        self._buffered += len(body)
        if self._body_max is None:
            self._wake()

    def on_message_complete(self) -> None:
        if self.head is not None:
            self._is_over = True
            self._wake()


def passed_on(headers: Headers) -> Headers:
    """The headers without those that concern one connection: the known ones, and those that `Connection` names."""
    named = [value for name, value in headers if name == b"connection"]
    if not named:
        return [each for each in headers if each[0] not in HOP_BY_HOP]
    hop = HOP_BY_HOP.union(token.strip().lower() for value in named for token in value.split(b","))
    return [each for each in headers if each[0] not in hop]
