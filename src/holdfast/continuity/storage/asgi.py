"""What fronts and places share: bodies that are streamed in and out, short answers, and the server that runs an application.

uvicorn swallows what is sent to a client that has left: `Leaving` notices it, so that nobody reads on for nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote

import msgspec
import uvicorn

from holdfast.continuity.server_certificate import ServerCertificate
from holdfast.errors import BadName, Unavailable

# Answers that are under way when a server ends have so long.
END_SECONDS = 5

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class ClientLeft(Exception):
    """The client closed its connection before its body was whole."""


def path_of(scope: Scope) -> str:
    """The path as it is meant, without its first slash. BadName if it is no UTF-8."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return name_in(raw.partition(b"?")[0].decode("ascii"))


def name_in(path: str) -> str:
    """The name of a file that a path means. BadName if it is no UTF-8."""
    try:
        return unquote(path, errors="strict").removeprefix("/")
    except UnicodeDecodeError as problem:
        raise BadName(f"{path!r:.80} is no name of a file: it is no UTF-8; write it in UTF-8, with % where needed") from problem


def query_of(scope: Scope) -> dict[str, str]:
    """What is asked for behind `?`, the last of each name."""
    found = parse_qs((scope.get("query_string") or b"").decode("latin-1"), keep_blank_values=True)
    return {name: values[-1] for name, values in found.items()}


def headers_of(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


async def body_of(receive: Receive) -> AsyncIterator[bytes]:
    """The body of a request, as it comes. ClientLeft if it does not come to its end."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        if message.get("body"):
            yield message["body"]
        if not message.get("more_body", False):
            return


async def begin(send: Send, status: int, headers: Mapping[str, str]) -> None:
    told = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": told})


async def answer(send: Send, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
    await begin(send, status, {"content-length": str(len(body)), **(headers or {})})
    await send({"type": "http.response.body", "body": body})


async def answer_json(send: Send, status: int, value: Any, headers: Mapping[str, str] | None = None) -> None:
    await answer(send, status, msgspec.json.encode(value), {"content-type": "application/json", **(headers or {})})


async def stream(send: Send, receive: Receive, chunks: AsyncIterator[bytes]) -> None:
    """Send a body chunk by chunk, until it ends or the client has left."""
    with Leaving(receive) as leaving:
        async for chunk in chunks:
            if leaving.is_gone:
                return
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


class Leaving:
    """Notices that the client has left."""

    def __init__(self, receive: Receive) -> None:
        self.is_gone = False
        self._receive = receive

    def __enter__(self) -> Self:
        self._task = asyncio.ensure_future(self._watch())
        return self

    async def _watch(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            while (await self._receive())["type"] != "http.disconnect":
                pass
            self.is_gone = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._task.cancel()


# --- serving ---------------------------------------------------------------------------------------------------------


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: the program hears them."""
        yield


class AsgiServer:
    """Use it as `async with`. `port` is where it listens."""

    def __init__(
        self,
        application: Any,
        host: str,
        port: int,
        certificate: ServerCertificate | None = None,
    ) -> None:
        self._listening = listen(host, port)
        self.port: int = self._listening.getsockname()[1]
        config = uvicorn.Config(
            application, http="httptools", ws="none", lifespan="off", interface="asgi3", log_config=None, access_log=False,
            proxy_headers=False, server_header=False, date_header=False, timeout_graceful_shutdown=END_SECONDS,
            timeout_keep_alive=60, **(certificate.for_uvicorn if certificate is not None else {}),
        )  # fmt: skip
        logging.getLogger("uvicorn").setLevel(logging.ERROR)
        self._server = _Uvicorn(config)
        self._serving: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._serving = asyncio.create_task(self._server.serve([self._listening]))
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._server.should_exit = True
        if self._serving is not None:
            await self._serving
        self._listening.close()


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections already: whoever connects now is answered when the server runs."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(1024)
        listening.setblocking(False)
    except OSError as problem:
        raise Unavailable(
            f"cannot listen on {host}:{port} ({problem.strerror}); stop what uses the port, or choose another with --listen"
        ) from problem
    return listening
