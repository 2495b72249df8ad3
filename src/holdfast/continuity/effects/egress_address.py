"""The address of an egress: HTTP, for a server that is configured to call it instead of the far side.

    http://127.0.0.1:9901/exchange/orders?day=1    ─▶    /orders?day=1 of the far side `exchange`

With TLS it is https, and only servers with a certificate are taken where an authority is named.
The server gets the far side's status, headers and body. Refusals are short texts:

    404   the path names no far side
    409   the call belongs to no running request
    413   a body over BODY_BYTES_MAX
    503   the carrier refuses it, and says why
    504   no result in time
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

import uvicorn

from holdfast.continuity.effects.egress import EffectRefused, Egress
from holdfast.continuity.machines.effects import Result
from holdfast.continuity.request import BODY_MAX, Headers, unknown_coding
from holdfast.continuity.server_certificate import ServerCertificate
from holdfast.errors import Unavailable

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

# Asks travel as events.
BODY_BYTES_MAX = BODY_MAX
END_SECONDS = 1


class EgressAddress:
    """Serves an egress on a port, in the loop of its listener. Use it as `open` … `close`."""

    def __init__(self, egress: Egress, host: str, port: int, tls: ServerCertificate | None = None) -> None:
        self._egress = egress
        self._listening = _listen(host, port)
        self.port = int(self._listening.getsockname()[1])
        logging.getLogger("uvicorn").setLevel(logging.ERROR)
        config = uvicorn.Config(
            self._application, http="httptools", ws="none", lifespan="off", interface="asgi3", log_config=None, access_log=False,
            proxy_headers=False, server_header=False, date_header=False, timeout_graceful_shutdown=END_SECONDS,
            **(tls.for_uvicorn if tls is not None else {}),
        )  # fmt: skip
        self._server = _Uvicorn(config)
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Take calls. Those that come before the loop turns wait in the socket."""
        self._task = asyncio.create_task(self._server.serve([self._listening]))

    async def close(self) -> None:
        self._server.should_exit = True
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        self._listening.close()

    async def _application(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            result = await self._ask(scope, await _body(receive))
        except EffectRefused as refused:
            text = f"{refused.reason}\n".encode()
            result = Result(refused.status, [(b"content-type", b"text/plain; charset=utf-8")], text)
        headers = [*result.headers, (b"content-length", b"%d" % len(result.body))]
        await send({"type": "http.response.start", "status": result.status, "headers": headers})
        await send({"type": "http.response.body", "body": result.body})

    async def _ask(self, scope: Scope, body: bytes) -> Result:
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        far, _, rest = path.lstrip("/").partition("/")
        if not far:
            raise EffectRefused(404, "The path names no far side; call it like /exchange/orders.")
        query = (scope.get("query_string") or b"").decode("latin-1")
        headers: Headers = [(name.lower(), value) for name, value in scope["headers"]]
        if coding := unknown_coding(headers):
            raise EffectRefused(501, f"Transfer-Encoding: {coding:.80} is not understood; send the body plain or chunked.")
        return await self._egress.ask(far, scope["method"], f"/{rest}?{query}" if query else f"/{rest}", headers, body)


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: the listener hears them."""
        yield


async def _body(receive: Receive) -> bytes:
    body: bytes = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > BODY_BYTES_MAX:
            raise EffectRefused(413, f"A body of more than {BODY_BYTES_MAX:,} bytes is not taken.")
        if not message.get("more_body", False):
            return body


def _listen(host: str, port: int) -> socket.socket:
    try:
        listening = socket.create_server((host, port))
    except OSError as problem:
        sentence = f"cannot listen on {host}:{port} for effects ({problem.strerror}); choose another address with --egress"
        raise Unavailable(sentence) from problem
    listening.setblocking(False)
    return listening
