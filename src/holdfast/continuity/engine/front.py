"""The front of an engine: HTTP under uvicorn, in the engine's own loop, until a signal comes.

Ready means ready: the port is opened after the engine has registered. A start that fails because Holdfast or the listeners are
not there yet is retried START_TRIES times, then reported (29).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from holdfast.continuity.engine.application import Application
from holdfast.continuity.engine.engine import Engine
from holdfast.continuity.engine.plain.plain_protocol import PlainProtocol
from holdfast.continuity.link.socket_end import MESSAGE_BYTES_MAX
from holdfast.continuity.server_certificate import ServerCertificate
from holdfast.errors import Unavailable

log = logging.getLogger("holdfast.continuity")

START_TRIES = 5
START_PAUSE_SECONDS = 1.0
READY_SECONDS = 10.0
END_SECONDS = 10


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell_started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell_started()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: `serve` hears them."""
        yield


class _Sockets(WebSocketsSansIOProtocol):
    async def send(self, message: Any) -> None:
        """Send it. A refusal ends the handshake, too: uvicorn does not note that, and would log each one as an error of ours."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True


async def serve(
    engine: Engine, host: str, port: int, certificate: ServerCertificate | None, announce: Callable[[int], None]
) -> None:
    """Take requests until SIGTERM or SIGINT, with a certificate by TLS. `announce` is told the port when clients can connect."""
    listening = _listen(host, port)
    try:
        await _open(engine)
        try:
            await _until_ready(engine)
            gc.freeze()  # what is loaded by now stays for good: the collector need not visit it among requests
            await _run(engine, listening, certificate, announce)
        finally:
            await engine.close()
    finally:
        listening.close()


async def _open(engine: Engine) -> None:
    for left in range(START_TRIES - 1, -1, -1):
        try:
            await engine.open()
            return
        except Unavailable as problem:
            if not left:
                raise
            log.warning("the engine cannot start yet, and tries again: %s", problem)
            await asyncio.sleep(START_PAUSE_SECONDS)


async def _until_ready(engine: Engine) -> None:
    """Give listeners a moment to dial; then go on without them, answering 503 until they are here."""
    try:
        await engine.until_ready(READY_SECONDS)
    except TimeoutError:
        log.warning(
            "%d of %d servers are current; requests get 503 until there are enough",
            len(engine.servers.current()),
            engine.domain.servers_min,
        )


async def _run(
    engine: Engine, listening: socket.socket, certificate: ServerCertificate | None, announce: Callable[[int], None]
) -> None:
    tls = certificate.for_uvicorn if certificate is not None else {}
    config = configured(Application(engine), timeout_graceful_shutdown=END_SECONDS, **tls)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    server = _Uvicorn(config, lambda: announce(int(listening.getsockname()[1])))
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, lambda: setattr(server, "should_exit", True))
    await server.serve([listening])


def configured(application: Application, http: Any = PlainProtocol, **options: Any) -> uvicorn.Config:
    """How uvicorn runs the application. Messages of WebSockets are bounded, and not compressed."""
    return uvicorn.Config(
        application, http=http, ws=_Sockets, ws_max_size=MESSAGE_BYTES_MAX, ws_per_message_deflate=False,
        lifespan="off", interface="asgi3", log_config=None, access_log=False, proxy_headers=False, server_header=False,
        date_header=False, **options,
    )  # fmt: skip


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.setblocking(False)
    except OSError as problem:
        raise Unavailable(
            f"cannot listen on {host}:{port} for requests ({problem.strerror}); stop what uses the port, or choose another with "
            "--listen"
        ) from problem
    return listening
