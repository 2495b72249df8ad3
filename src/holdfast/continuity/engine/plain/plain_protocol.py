"""The connections of an engine's clients: plain requests go to the engine at once, all others through the application.

                    ┌─ plain ──▶ engine ──▶ the whole answer in one write
    HTTP ──▶ parser ┤
                    └─ other ──▶ uvicorn's cycle ──▶ Application (ASGI) ──▶ engine

A request is plain if it is HTTP/1.1 on a connection that is kept, has no body over BODY_BYTES_MAX or of unknown length, asks for
no stream, no upgrade and no `100 Continue`, and follows no request that is still being answered, on a connection whose client
takes what is written. That is nearly every one; the rest is rare, and uvicorn does it well. A write, and a read to all servers,
need no task: the link of the listener that answers first calls `_over`, which writes. This is most of what an engine can save on
a request (docs/performance.md).

Reading, keep-alive, limits of the socket and the orderly end are uvicorn's. A plain request is its `cycle` while it lasts, so
that uvicorn knows when a connection may be closed. Trailers are no headers: a client could put there what a proxy before the
engine keeps out of its headers, so they are left out.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from holdfast.continuity.engine import passed_headers
from holdfast.continuity.engine.application import Application, Refusal
from holdfast.continuity.engine.plain.written_answer import chunked, head_of, refusal_of, unwritable, whole_of
from holdfast.continuity.engine.transactions.under_way import AnswerCut, Transaction
from holdfast.continuity.errors import NotAnswered, NotTaken, ReEntry
from holdfast.continuity.request import Headers

log = logging.getLogger("holdfast.continuity")

# uvicorn stops reading at this size until somebody takes what came: a larger body goes the long way.
BODY_BYTES_MAX = 64 << 10
# httptools takes no longer URL apart: the long way refuses it.
TARGET_BYTES_MAX = 65535
# Headers that may make a request other than plain. `accept` and `content-length` do so by their values.
_NOT_PLAIN = frozenset((b"upgrade", b"expect", b"transfer-encoding", b"holdfast-transaction"))
_BY_VALUE = frozenset((b"accept", b"content-length"))
_KEY = b"idempotency-key"
_HEEDED = _NOT_PLAIN | _BY_VALUE | {_KEY}


class _NoEvent:
    """uvicorn wakes whoever waits for a body. Nobody does."""

    def set(self) -> None: ...


class PlainCycle:
    """A plain request, as uvicorn sees it."""

    __slots__ = ("disconnected", "keep_alive", "message_event", "method", "response_complete", "session")

    def __init__(self, method: str, session: str) -> None:
        self.method = method
        self.session = session
        self.response_complete = False
        self.keep_alive = True
        self.disconnected = False
        self.message_event = _NO_EVENT


_NO_EVENT = _NoEvent()


class PlainProtocol(HttpToolsProtocol):
    """Give it to uvicorn as `http`. The application must be an `Application`."""

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], _loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        application = config.loaded_app
        assert isinstance(application, Application)
        self._application = application
        self._engine = application.engine
        self._is_plain = self._is_special = self._is_head_over = self._has_key = False
        self._session: str | None = None  # of all requests of this connection, if headers do not say it
        self._chunks: list[bytes] = []
        self._is_idle = False
        self._idle_since = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]  # it is one
        self._session = self._application.session_of_connection(self.client)

    # --- from the parser ---------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._is_idle = False
        super().data_received(data)

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self.expect_100_continue = self._is_plain = self._is_special = self._is_head_over = self._has_key = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_head_over:  # a trailer
            return
        name = name.lower()
        self.headers.append((name, value))
        if name not in _HEEDED:
            return
        if name == _KEY:
            self._has_key = True
        elif name in _NOT_PLAIN or _is_special(name, value):
            self._is_special = True
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True

    def on_headers_complete(self) -> None:
        parser, url = self.parser, self.url
        self._is_head_over = True
        self._is_plain = (
            not self._is_special
            and (self.cycle is None or self.cycle.response_complete)
            and url[:1] == b"/" != url[1:2]
            and b"#" not in url
            and url[-1:] != b"?"
            and len(url) <= TARGET_BYTES_MAX
            and not self.flow.write_paused
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
            and not self._engine.is_stream(parser.get_method().decode("ascii"), url.decode("latin-1"))
        )
        if self._is_plain:
            self._chunks = []
            return
        headers, expects = self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers[:] = headers
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._is_plain:
            self._chunks.append(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._is_plain:
            return super().on_message_complete()
        self._is_plain = False
        chunks = self._chunks
        body = b"" if not chunks else chunks[0] if len(chunks) == 1 else b"".join(chunks)
        return self._begin(self.parser.get_method().decode("ascii"), self.url.decode("latin-1"), self.headers, body)

    # --- a plain request ---------------------------------------------------------------------------------------------

    def _begin(self, method: str, target: str, headers: Headers, body: bytes) -> None:
        cycle = self.cycle = PlainCycle(method, self._session or "")  # type: ignore[assignment]  # it stands for one of uvicorn's
        key = number = ""
        try:
            if self._has_key or self._session is None:
                cycle.session, key, number = self._application.terms(self.client, headers)
            passed = passed_headers.of_request(headers, body)
            transaction = self._engine.begin(method, target, passed, body, session=cycle.session, key=key, number=number)
        except (Refusal, ReEntry, NotTaken) as problem:
            return self._end(cycle, refusal_of(cycle.method, problem))
        if transaction is None:
            return self._run(self._submit(cycle, target, passed, body, key, number))
        transaction.watcher = partial(self._over, cycle, transaction)
        return None

    def _over(self, cycle: PlainCycle, transaction: Transaction) -> None:
        """A request that no task waits for was answered, or is refused after all."""
        try:
            self._engine.answered(transaction, cycle.session)
        except (NotTaken, NotAnswered) as problem:
            self._end(cycle, refusal_of(cycle.method, problem))
        else:
            self._answer(cycle, transaction, transaction.number)

    async def _submit(
        self, cycle: PlainCycle, target: str, headers: Headers, body: bytes, key: str, number: str
    ) -> None:  # fmt: skip
        try:
            transaction, number = await self._engine.submit(
                cycle.method, target, headers, body, session=cycle.session, key=key, number=number
            )
        except (ReEntry, NotTaken, NotAnswered) as problem:
            self._end(cycle, refusal_of(cycle.method, problem))
        else:
            self._answer(cycle, transaction, number)

    def _answer(self, cycle: PlainCycle, transaction: Transaction, number: str) -> None:
        """Write an answer at once if it is whole; if not, while it comes."""
        body = transaction.body_at_once()
        if body is None:
            self._run(self._stream(cycle, transaction, number))
        else:
            self._engine.leave(number)
            written = whole_of(cycle.method, transaction, number, body)
            self._end(cycle, written if written is not None else unwritable(cycle.method))

    async def _stream(self, cycle: PlainCycle, transaction: Transaction, number: str) -> None:
        """Hand an answer on. One that is cut short ends the connection, so that the client cannot take it for whole."""
        try:
            head, left = head_of(cycle.method, transaction.head.status, passed_headers.of_answer(transaction, number))
            if head is None:
                self._end(cycle, unwritable(cycle.method))
                return
            self.transport.write(head)
            async for chunk in transaction.chunks():
                if left is not None:
                    left -= len(chunk)
                self.transport.write(chunk if left is not None else chunked(chunk))
                if self.flow.write_paused:
                    await self.flow.drain()
                if cycle.disconnected or (left is not None and left < 0):
                    break
            is_whole = left in (None, 0) or cycle.method == "HEAD"
        except AnswerCut:
            is_whole = False
        finally:
            self._engine.leave(number)
        if is_whole:
            self._end(cycle, b"" if left is not None else chunked(b""))
        else:
            cycle.keep_alive = False
            self._end(cycle, b"")

    def _end(self, cycle: PlainCycle, written: bytes) -> None:
        """Write the rest of an answer, and go on with the connection."""
        cycle.response_complete = True
        if self.transport.is_closing():
            return
        if written:
            self.transport.write(written)
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _run(self, work: Any) -> None:
        """Run it as uvicorn runs its own: an orderly end waits for it."""
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._ran)

    def _ran(self, task: asyncio.Task[None]) -> None:
        """A fault of ours cuts the connection: its client must not wait for ever."""
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a request failed by a fault of the engine: %r", task.exception(), exc_info=task.exception())
            self.transport.close()

    # --- keep-alive --------------------------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        if self.pipeline:
            return super().on_response_complete()
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            self.flow.resume_reading()
            self._is_idle, self._idle_since = True, self.loop.time()
            if self._idle_timer is None:  # one for many requests: setting one for each costs more than they do
                self._idle_timer = self.loop.call_later(self.timeout_keep_alive, self._look_idle)
        return None

    def _look_idle(self) -> None:
        self._idle_timer = None
        if self._is_idle and not self.transport.is_closing():
            left = self._idle_since + self.timeout_keep_alive - self.loop.time()
            if left <= 0:
                self.transport.close()
            else:
                self._idle_timer = self.loop.call_later(left, self._look_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        super().connection_lost(exc)


def _is_special(name: bytes, value: bytes) -> bool:
    if name == b"accept":
        return b"text/event-stream" in value.lower()
    return not value.isdigit() or len(value) > 9 or int(value) > BODY_BYTES_MAX
