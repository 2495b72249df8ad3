"""An ASGI application under uvicorn, in the loop of the program that holds it: started, stopped, and silent about signals."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import uvicorn

from holdfast.errors import Unavailable

END_SECONDS = 5


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
        *,
        certificate: Path | None = None,
        key: Path | None = None,
        client_ca: Path | None = None,
    ) -> None:
        """`client_ca`: take only clients with a certificate of these authorities."""
        self._listening = listen(host, port)
        self.port: int = self._listening.getsockname()[1]
        config = uvicorn.Config(
            application, http="httptools", ws="none", lifespan="off", interface="asgi3", log_config=None, access_log=False,
            proxy_headers=False, server_header=False, date_header=False, timeout_graceful_shutdown=END_SECONDS,
            timeout_keep_alive=60, ssl_certfile=certificate, ssl_keyfile=key, ssl_ca_certs=str(client_ca) if client_ca else None,
            ssl_cert_reqs=ssl.CERT_REQUIRED if client_ca else ssl.CERT_NONE,
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
