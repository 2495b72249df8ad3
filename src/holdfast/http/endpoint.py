"""The endpoint: answers HTTP in the server's own loop, under uvicorn, until the server stops.

Its tasks are few and short: numbers are taken in turns with all other work, text is made in a thread, and only so many
connections are taken at a time. A fault here ends the endpoint, never the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from holdfast.errors import Unavailable
from holdfast.http.application import Application, Watch
from holdfast.http.limited_protocol import LimitedProtocol
from holdfast.http.server_watch import ServerWatch
from holdfast.node import supervision
from holdfast.node.clock import SystemClock
from holdfast.node.node import Node
from holdfast.node.server import Served

log = logging.getLogger("holdfast.http")

# More than Prometheus, a load balancer and a few people need.
CONNECTIONS_MAX = 64
KEEP_ALIVE_S = 75
END_S_MAX = 2


class Endpoint:
    def __init__(self, listening: socket.socket, uvicorn_server: _Uvicorn, watch: Watch) -> None:
        self._socket = listening
        self._uvicorn = uvicorn_server
        self._watch = watch
        self._serving = supervision.start(uvicorn_server.serve([listening]), "answering HTTP")

    @classmethod
    async def open(
        cls,
        node: Served,
        data: Path,
        host: str,
        port: int,
        token: str | None,
        tls: ssl.SSLContext | None,
        version: str,
    ) -> Endpoint:
        """Listen, and answer from now on. With `tls`, over HTTPS."""
        listening = _listen(host, port)
        watch = _watch(node, data, version)
        made = cls(listening, _Uvicorn(_config(Application(watch, token), tls)), watch)
        log.info("answers %s on %s:%d", "HTTPS" if tls else "HTTP", host, made.port)
        return made

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    async def close(self) -> None:
        self._uvicorn.should_exit = True
        await asyncio.gather(self._serving, return_exceptions=True)
        self._watch.close()
        self._socket.close()


def _watch(node: Served, data: Path, version: str) -> Watch:
    if isinstance(node, Node):
        return ServerWatch(node, data, version, SystemClock())
    from holdfast.http.cluster_watch import ClusterWatch  # needs the packages of a cluster
    from holdfast.node.clustered.cluster_node import ClusterNode

    assert isinstance(node, ClusterNode)
    return ClusterWatch(node, data, version, SystemClock())


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: they are for the server, which then closes this."""
        yield


def _config(application: Application, tls: ssl.SSLContext | None) -> uvicorn.Config:
    config = uvicorn.Config(
        application,
        http=LimitedProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=END_S_MAX,
    )
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # it warns of every request that is none: strangers would fill the log
    config.load()
    config.ssl = tls
    return config


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen()  # who connects before uvicorn has begun is answered then
            listening.setblocking(False)
        except BaseException:
            listening.close()
            raise
    except OSError as problem:
        raise Unavailable(
            f"cannot listen on {host}:{port} for HTTP ({problem.strerror}); stop what uses the port, or choose another with "
            "--http"
        ) from problem
    return listening
