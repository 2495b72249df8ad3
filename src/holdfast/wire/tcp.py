"""Links over TCP, on asyncio's or uvloop's loop: how a client makes them (`dial`) and how a server takes them (`listen`).

A connection is nobody until its first frame, a Hello: only then does `on_link` hear of it. Connections that stay silent are
dropped after `greeting_timeout`, and the oldest of them at once when there are more than `silent_max`: ten thousand of them cost
a thousand file descriptors for a moment, and nobody else anything. A handshake of TLS that does not end is silence too.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable

from holdfast.errors import HoldfastError, ProtocolError, Unreachable
from holdfast.wire.frame import FRAME_BYTES_MAX, Frame, Hello
from holdfast.wire.tcp_link import TcpLink
from holdfast.wire.tls import TlsFilter, is_handshake

log = logging.getLogger("holdfast.tcp")

BACKLOG_MAX = 1024


class _OutgoingLink(TcpLink):
    """A link that this client opens: `secured` is done when TLS is agreed upon, at once without."""

    def __init__(self, tls: TlsFilter | None) -> None:
        super().__init__(tls=tls)
        self.secured: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self._transport is not None
        if self._tls is None:
            self.secured.set_result(None)
        else:
            self._transport.write(self._tls.begin())

    def _decrypt(self, tls: TlsFilter, data: bytes) -> bytes:
        plain = super()._decrypt(tls, data)
        if tls.is_ready and not self.secured.done():
            self.secured.set_result(None)
        return plain

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.secured.done():
            reset = ConnectionResetError("the server ended the connection during the TLS handshake")
            self.secured.set_exception(self._problem or exc or reset)
        super().connection_lost(exc)


class _IncomingLink(TcpLink):
    """A link that a client opened: unknown to `on_link` until it says Hello."""

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener.frame_bytes_max, TlsFilter(listener.tls) if listener.tls is not None else None)
        self._listener = listener
        self._is_heard = False

    def data_received(self, data: bytes) -> None:
        if not self._is_heard:
            self._is_heard = True
            if problem := self._mismatch(data):
                self._tls = None
                self.refuse(problem)
                return
        super().data_received(data)

    def _mismatch(self, data: bytes) -> ProtocolError | None:
        """One side speaks TLS and the other does not: said in words, as far as the client can read them."""
        if self._tls is None and is_handshake(data):
            return ProtocolError("this port is without TLS; write holdfast:// instead of holdfasts://")
        if self._tls is not None and not is_handshake(data):
            return ProtocolError("this port speaks TLS; write holdfasts:// instead of holdfast://")
        return None

    def refuse(self, problem: HoldfastError) -> None:
        log.info("connection from %s ends: %s", self._peer, problem)
        super().refuse(problem)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._listener.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.gone(self)
        super().connection_lost(exc)

    def _greeted(self, frame: Frame) -> None:
        if type(frame.message) is not Hello or frame.session != 0:
            raise ProtocolError("the first frame of a link must be a Hello on session 0; this is not a Holdfast client")
        self._listener.greeted(self)
        self.received(frame)


class Listener:
    """Takes connections; made by `listen`."""

    def __init__(
        self,
        on_link: Callable[[TcpLink], None],
        *,
        greeting_timeout: float,
        silent_max: int,
        frame_bytes_max: int,
        tls: ssl.SSLContext | None,
    ) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.tls = tls
        self._on_link = on_link
        self._greeting_timeout = greeting_timeout
        self._silent_max = silent_max
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server | None = None
        self._silent: dict[TcpLink, float] = {}  # in order of arrival, with the time at which patience ends
        self._open: set[TcpLink] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._all_gone: asyncio.Future[None] | None = None

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where it listens, with the port it was given when it asked for port 0."""
        assert self._server is not None
        return [each.getsockname()[:2] for each in self._server.sockets]

    @property
    def port(self) -> int:
        return self.addresses[0][1]

    async def start(self, host: str, port: int) -> None:
        self._server = await self._loop.create_server(lambda: _IncomingLink(self), host, port, backlog=BACKLOG_MAX)

    async def close(self) -> None:
        """Take no more connections and end those there are, each after what it has still to send."""
        if self._server is not None:
            self._server.close()
        if self._sweep is not None:
            self._sweep.cancel()
        for link in [*self._silent, *self._open]:
            link.close()
        if self._silent or self._open:
            self._all_gone = self._loop.create_future()
            await self._all_gone

    def connected(self, link: TcpLink) -> None:
        self._silent[link] = self._loop.time() + self._greeting_timeout
        if len(self._silent) > self._silent_max:
            self._drop(next(iter(self._silent)), f"more than {self._silent_max} connections have not said Hello; connect again")
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._greeting_timeout, self._drop_overdue)

    def greeted(self, link: TcpLink) -> None:
        del self._silent[link]
        self._open.add(link)
        self._on_link(link)

    def gone(self, link: TcpLink) -> None:
        self._silent.pop(link, None)
        self._open.discard(link)
        if self._all_gone is not None and not (self._silent or self._open or self._all_gone.done()):
            self._all_gone.set_result(None)

    def _drop_overdue(self) -> None:
        now = self._loop.time()
        while self._silent and (oldest := next(iter(self._silent.items())))[1] <= now:
            self._drop(oldest[0], f"no Hello within {self._greeting_timeout:g} s; greet first")
        patience_ends = next(iter(self._silent.values()), None)
        self._sweep = None if patience_ends is None else self._loop.call_at(patience_ends, self._drop_overdue)

    def _drop(self, link: TcpLink, sentence: str) -> None:
        self._silent.pop(link)
        TcpLink.refuse(link, ProtocolError(sentence))  # unlogged: silence is cheap, and must not fill the log


async def listen(
    host: str,
    port: int,
    on_link: Callable[[TcpLink], None],
    *,
    greeting_timeout: float = 10.0,
    silent_max: int = 1_000,
    frame_bytes_max: int = FRAME_BYTES_MAX,
    tls: ssl.SSLContext | None = None,
) -> Listener:
    """Take connections. `on_link` gets each link with its Hello waiting: it must set `received` and `lost` before it returns."""
    listener = Listener(
        on_link, greeting_timeout=greeting_timeout, silent_max=silent_max, frame_bytes_max=frame_bytes_max, tls=tls
    )
    await listener.start(host, port)
    return listener


async def dial(address: tuple[str, int], timeout: float, tls: ssl.SSLContext | None = None) -> TcpLink:
    """A link to the server at (host, port); Unreachable with the reason if there is none within the timeout.

    With TLS, the server has proved to be the host that was named before this returns; Untrusted if it could not.
    """
    host, port = address
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout):
            transport, link = await loop.create_connection(
                lambda: _OutgoingLink(TlsFilter(tls, host) if tls is not None else None), host, port
            )
            try:
                await link.secured
            except BaseException:
                transport.abort()
                raise
    except TimeoutError as problem:
        raise Unreachable(
            f"no answer from {host}:{port} within {timeout:g} s; is it the right address?", host=host, port=port
        ) from problem
    except OSError as problem:
        raise Unreachable(
            f"cannot connect to {host}:{port}: {problem.strerror or problem}; is the server running?", host=host, port=port
        ) from problem
    except HoldfastError as problem:
        raise type(problem)(f"{host}:{port}: {problem}", **problem.fields) from problem
    return link
