"""The application: an engine behind HTTP, for uvicorn or any ASGI server.

    HTTP request ──▶ body, whole and bounded ──▶ engine.submit ──▶ head, then the body as it comes

The client sees the server's answer, and `Holdfast-Transaction`, its confirmation number. A stored answer says
`Holdfast-Replayed: true`. Refusals are short texts:

    503   nothing was taken; Retry-After says when to repeat it
    504   no answer in time: repeat it with `Idempotency-Key: ` the key that is told
    508   a server asks its own domain while it answers
    409, 410, 422, 502   as `machines.gathering` decides
    501   server-sent events or a WebSocket on a route that is not declared as a stream; other upgrades anywhere;
          a Transfer-Encoding other than chunked
    413   a body over BODY_BYTES_MAX

A WebSocket on a declared route is accepted when a server has accepted it (`sockets`), and refused with such a status before.

Internal headers neither come in nor go out: `Accept-Encoding` and what concerns one connection are left out, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

from holdfast.continuity.engine import passed_headers
from holdfast.continuity.engine.engine import Engine
from holdfast.continuity.engine.sockets import PassedSocket
from holdfast.continuity.engine.transactions.under_way import AnswerCut, Transaction
from holdfast.continuity.errors import NotAnswered, NotTaken, ReEntry
from holdfast.continuity.link.frame import SocketClose
from holdfast.continuity.link.socket_end import NO_STATUS, OpeningAnswered
from holdfast.continuity.machines.effects import trace_of
from holdfast.continuity.machines.routes import asks_for_stream
from holdfast.continuity.request import Headers, unknown_coding

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

BODY_BYTES_MAX = 64 << 20
# Bodies of all requests together while they are being read.
BODIES_BYTES_MAX = 512 << 20
KEY_MAX = 255
UNDECLARED = 'this route is not declared as a stream; add it to `routes` with kind = "stream"'


class ClientLeft(Exception):
    """The client closed its connection before its request was whole: nothing was sent."""


class Application:
    """An ASGI application. With lifespan events it opens and closes the engine; else the caller does."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._bodies_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self.engine.open()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.engine.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = [(name.lower(), value) for name, value in scope["headers"]]
        try:
            await self._check_entry(headers)
            self._check_stream(scope, headers)
            key = _key_of(headers)
            body = await self._body(headers, receive)
            transaction, number = await self.engine.submit(
                scope["method"], _target(scope), passed_headers.of_request(headers, body), body,
                session=self._session(scope, headers), key=key, number=self._number(headers),
            )  # fmt: skip
        except ClientLeft:
            return
        except Refusal as refusal:
            await _refuse(send, refusal.status, refusal.sentence, [])
        except ReEntry as problem:
            await _refuse(send, 508, problem.sentence, [])
        except NotTaken as problem:
            await _refuse(send, 503, problem.sentence, [(b"retry-after", b"%d" % problem.retry_after)])
        except NotAnswered as problem:
            await _refuse(send, problem.status, problem.sentence, passed_headers.of_problem(problem))
        else:
            if transaction.streamed_by:
                await self._answer_until_left(scope, receive, send, transaction, number)
            else:
                await self._answer(scope, send, transaction, number)

    async def _answer_until_left(
        self, scope: Scope, receive: Receive, send: Send, transaction: Transaction, number: str
    ) -> None:  # fmt: skip
        """Hand a stream on until it ends, or its client has left: such a stream may never end by itself."""
        answering = asyncio.ensure_future(self._answer(scope, send, transaction, number))
        leaving = asyncio.ensure_future(_until_left(receive))
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not answering.done():
                answering.cancel()
            await asyncio.wait((answering, leaving))
        if not answering.cancelled():
            answering.result()

    async def _answer(self, scope: Scope, send: Send, transaction: Transaction, number: str) -> None:
        """Hand an answer on. One that is cut short ends the connection, so that the client cannot take it for whole."""
        headers = passed_headers.of_answer(transaction, number)
        try:
            await send({"type": "http.response.start", "status": transaction.head.status, "headers": headers})
            if scope["method"] != "HEAD":
                async for chunk in transaction.chunks():
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except AnswerCut as cut:
            raise ConnectionAbortedError(f"the answer of transaction {number} is cut: {cut}") from cut
        finally:
            self.engine.leave(number)

    # --- a WebSocket -------------------------------------------------------------------------------------------------

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a WebSocket through to a server, or say with a status why not (23)."""
        headers: Headers = [(name.lower(), value) for name, value in scope["headers"]]
        await receive()
        try:
            await self._check_entry(headers)
            if not self.engine.is_stream("GET", _target(scope)):
                raise Refusal(501, UNDECLARED)
            passed = passed_headers.of_request(headers, b"")
            socket, opened = await self.engine.open_socket(_target(scope), passed, self._session(scope, headers))
        except OpeningAnswered as answered:
            head, body = answered.answer.head, answered.answer.body
            await _answer_opening(scope, send, head.status, body, passed_headers.without_internal(head.headers))
        except (Refusal, ReEntry, NotTaken, NotAnswered) as problem:
            await _refuse_opening(scope, send, problem)
        else:
            try:
                told = passed_headers.without_internal(opened.headers)
                await send({"type": "websocket.accept", "subprotocol": opened.subprotocol or None, "headers": told})
                await _pass_through(socket, receive, send)
            finally:
                self.engine.sockets.leave(socket)

    async def _check_entry(self, headers: Headers) -> None:
        """Refuse a request that a server makes while it processes another: it would wait for itself (continuity rule 13).

        It is traced by `Holdfast-Transaction`, which a server knows with `tell_server`, at this engine and at all listeners.
        """
        number = next((value.decode("latin-1") for name, value in headers if name == b"holdfast-transaction"), "")
        if number and (self.engine.is_running(number) or await self.engine.servers.running(trace_of(number))):
            raise Refusal(508, f"this request comes out of transaction {number}, which is still running")

    def _check_stream(self, scope: Scope, headers: Headers) -> None:
        """Refuse what would never end, become another protocol, or cannot be decoded, before anything is sent (23)."""
        if coding := unknown_coding(headers):
            raise Refusal(501, f"Transfer-Encoding: {coding:.80} is not understood; send the body plain or chunked")
        if any(name == b"upgrade" and b"h2c" not in value.lower() for name, value in headers):
            raise Refusal(501, "upgrades other than WebSocket are not passed through")
        if asks_for_stream(headers) and not self.engine.is_stream(scope["method"], _target(scope)):
            raise Refusal(501, UNDECLARED)

    # --- what a request says -----------------------------------------------------------------------------------------

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        chunks: list[bytes] = []
        size = 0
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientLeft
                chunk = message.get("body", b"")
                size += len(chunk)
                self._bodies_bytes += len(chunk)
                if size > BODY_BYTES_MAX:
                    raise Refusal(413, f"a body of more than {BODY_BYTES_MAX:,} bytes is not taken")
                if self._bodies_bytes > BODIES_BYTES_MAX:
                    raise NotTaken("too many large requests at once; nothing was sent, repeat it later")
                chunks.append(chunk)
                if not message.get("more_body", False):
                    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        finally:
            self._bodies_bytes -= size

    def terms(self, client: tuple[str, int] | None, headers: Headers) -> tuple[str, str, str]:
        """Session, key and transaction number that a request has. Refusal for a key that is too long."""
        return self._session({"client": client}, headers), _key_of(headers), self._number(headers)

    def session_of_connection(self, client: tuple[str, int] | None) -> str | None:
        """The session of all requests of a connection; None if their headers tell it, or their transaction number."""
        domain = self.engine.domain
        is_told = domain.session_header or domain.session_cookie or domain.transaction_header
        return None if is_told else self._session({"client": client}, [])

    def _session(self, scope: Scope, headers: Headers) -> str:
        """The session of a request: named by a cookie or a header, else its connection."""
        domain = self.engine.domain
        if domain.session_header:
            wanted = domain.session_header.lower().encode()
            return next((value.decode("latin-1") for name, value in headers if name == wanted), "")
        if domain.session_cookie:
            return _cookie(headers, domain.session_cookie)
        client = scope.get("client")
        return f"{self.engine.start}-{client[0]}:{client[1]}" if client else ""

    def _number(self, headers: Headers) -> str:
        wanted = self.engine.domain.transaction_header.lower().encode()
        return next((value.decode("latin-1") for name, value in headers if name == wanted), "") if wanted else ""


class Refusal(Exception):
    """A request that is refused for its form."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


def _key_of(headers: Headers) -> str:
    value = next((value for name, value in headers if name == b"idempotency-key"), b"")
    key = value.decode("latin-1").strip().strip('"') if value else ""
    if len(key) > KEY_MAX:
        raise Refusal(400, f"Idempotency-Key has {len(key)} characters; at most {KEY_MAX} are taken")
    return key


def _cookie(headers: Headers, wanted: str) -> str:
    try:
        cookies = SimpleCookie("; ".join(value.decode("latin-1") for name, value in headers if name == b"cookie"))
    except CookieError:
        return ""
    return cookies[wanted].value if wanted in cookies else ""


def _target(scope: Scope) -> str:
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope.get("query_string") or b""
    return (path + b"?" + query if query else path).decode("latin-1")


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _pass_through(socket: PassedSocket, receive: Receive, send: Send) -> None:
    """Messages both ways until one side closes it."""
    ways = [asyncio.ensure_future(each) for each in (_from_client(socket, receive), _to_client(socket, send))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in ways:
            each.cancel()
        await asyncio.wait(ways)
    for each in ways:
        if not each.cancelled():
            each.result()


async def _from_client(socket: PassedSocket, receive: Receive) -> None:
    while (message := await receive())["type"] == "websocket.receive":
        text = message.get("text")
        if not await socket.put(message["bytes"] if text is None else text.encode(), text is not None):
            await asyncio.Event().wait()  # the other way says the close
    socket.close(message.get("code") or NO_STATUS, message.get("reason") or "")


async def _to_client(socket: PassedSocket, send: Send) -> None:
    while not isinstance(message := await socket.get(), SocketClose):
        said = {"text": message.data.decode()} if message.is_text else {"bytes": message.data}
        await send({"type": "websocket.send", **said})
    await send({"type": "websocket.close", "code": message.code, "reason": message.reason})


async def _refuse_opening(scope: Scope, send: Send, problem: Refusal | ReEntry | NotTaken | NotAnswered) -> None:
    headers: Headers = []
    if isinstance(problem, NotTaken):
        headers = [(b"retry-after", b"%d" % problem.retry_after)]
    status = {ReEntry: 508, NotTaken: 503}.get(type(problem)) or problem.status  # type: ignore[union-attr]
    await _answer_opening(scope, send, status, f"{problem.sentence}\n".encode(), headers)


async def _answer_opening(scope: Scope, send: Send, status: int, body: bytes, headers: Headers) -> None:
    """Answer the opening of a WebSocket as HTTP, where the server of this application can; else it says 403."""
    if "websocket.http.response" in (scope.get("extensions") or {}):
        told = [each for each in headers if each[0] != b"content-length"]
        await send({"type": "websocket.http.response.start", "status": status, "headers": told})
        await send({"type": "websocket.http.response.body", "body": body})
    else:
        await send({"type": "websocket.close"})


async def _refuse(send: Send, status: int, sentence: str, headers: Headers) -> None:
    body = f"{sentence}\n".encode()
    told = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": body})
