"""Links over TCP, on asyncio's or uvloop's loop: a client makes them (`dial`), a server takes them (`listen`).

A server without TLS has a local socket, too, whose name it tells in its greeting: a client on its machine goes on over that one
(`dial_local`), which takes half the time for each frame.

`on_link` gets a connection with its first frame, a Hello. Until `on_link` calls `admit`, frames may be no longer than a Hello
needs, and `admission` limits how long the login may take and how many bytes all such links may hold. An unfinished handshake of
TLS counts as silence.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable

from holdfast.errors import HoldfastError, ProtocolError, TooLarge, Unreachable
from holdfast.wire import local_socket
from holdfast.wire.admission import Admission, AdmissionLimits, Dropped
from holdfast.wire.frame import FRAME_BYTES_MAX, Frame, Hello
from holdfast.wire.tcp_link import TcpLink
from holdfast.wire.tls import TlsFilter, is_handshake

log = logging.getLogger("holdfast.tcp")

BACKLOG_MAX = 1024

OnRefused = Callable[[str, HoldfastError], None]


class _OutgoingLink(TcpLink):
    """A link that this client opens. `secured` is done when TLS is agreed upon; without TLS, at once."""

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
        super().__init__(listener.limits.frame_bytes_max, TlsFilter(listener.tls) if listener.tls is not None else None)
        self._listener = listener
        self._is_heard = False
        self._is_admitted = False

    def data_received(self, data: bytes) -> None:
        if self._is_admitted:
            super().data_received(data)
            return
        if not self._is_heard:
            self._is_heard = True
            if problem := self._mismatch(data):
                self._tls = None
                self.refuse(problem)
                return
        try:
            super().data_received(data)
            if not (self._is_closing or self._is_admitted):
                self._check_held()
        except Exception as problem:  # a stranger can cost only its own link, and a line of the log
            self.refuse(ProtocolError(f"bytes that came before login cannot be read ({problem!r}); is this a Holdfast client?"))

    def _check_held(self) -> None:
        """Count the bytes that this link makes us keep: nobody has logged in on it."""
        of_tls = 0 if self._tls is None else self._tls.held_bytes
        if of_tls > self._listener.limits.frame_bytes_max:
            self.refuse(TooLarge("the TLS handshake is too long", length=of_tls))
        else:
            self._listener.holds(self, of_tls + self._decoder.held_bytes)

    def admit(self) -> None:
        self._is_admitted = True
        self._decoder.frame_bytes_max = FRAME_BYTES_MAX
        self._listener.admitted(self)

    def _mismatch(self, data: bytes) -> ProtocolError | None:
        """Return an error if one side speaks TLS and the other does not: in words, as far as the client can read them."""
        if self._tls is None and is_handshake(data):
            return ProtocolError("this port does not speak TLS; write holdfast:// instead of holdfasts://")
        if self._tls is not None and not is_handshake(data):
            return ProtocolError("this port speaks TLS; write holdfasts:// instead of holdfast://")
        return None

    def refuse(self, problem: HoldfastError) -> None:
        if isinstance(problem, TooLarge) and not self._is_admitted:
            limit = self._listener.limits.frame_bytes_max
            problem = TooLarge(f"more than {limit:,} bytes at once before login; is this a Holdfast client?", **problem.fields)
        self._listener.refused(self._peer, problem)
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


def _log_refused(peer: str, problem: HoldfastError) -> None:
    log.info("connection from %s ends: %s", peer, problem)


class Listener:
    """Takes connections; made by `listen`."""

    def __init__(
        self,
        on_link: Callable[[TcpLink], None],
        refused: OnRefused,
        limits: AdmissionLimits,
        tls: ssl.SSLContext | None,
    ) -> None:
        self.refused = refused
        self.limits = limits
        self.tls = tls
        self._on_link = on_link
        self._admission: Admission[TcpLink] = Admission(limits)
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server | None = None
        self._local_server: asyncio.Server | None = None
        self.local = ""  # the name of its local socket
        self._links: set[TcpLink] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._sweep_at_s = 0.0  # kept here: a timer of uvloop that is due at once does not tell it
        self._all_gone: asyncio.Future[None] | None = None

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses where it listens, with the real port if it asked for port 0."""
        assert self._server is not None
        return [each.getsockname()[:2] for each in self._server.sockets]

    @property
    def port(self) -> int:
        return self.addresses[0][1]

    async def start(self, host: str, port: int) -> None:
        self._server = await self._loop.create_server(lambda: _IncomingLink(self), host, port, backlog=BACKLOG_MAX)
        if self.tls is None and (made := local_socket.listen()) is not None:
            self.local, listening = made
            self._local_server = await self._loop.create_unix_server(lambda: _IncomingLink(self), sock=listening)

    def pause(self) -> None:
        """Take no more connections; the links go on. `start` takes them again."""
        for server in (self._server, self._local_server):
            if server is not None:
                server.close()

    async def close(self) -> None:
        """Take no more connections and close all links, each after it has sent what waits."""
        self.pause()
        if self._sweep is not None:
            self._sweep.cancel()
        for link in list(self._links):
            link.close()
        if self._links:
            self._all_gone = self._loop.create_future()
            await self._all_gone

    def connected(self, link: TcpLink) -> None:
        self._links.add(link)
        self._drop(self._admission.connected(link, self._loop.time()))
        self._sweep_later()

    def greeted(self, link: TcpLink) -> None:
        self._admission.greeted(link, self._loop.time())
        self._sweep_later()
        self._on_link(link)

    def holds(self, link: TcpLink, held_bytes: int) -> None:
        self._drop(self._admission.holds(link, held_bytes))

    def admitted(self, link: TcpLink) -> None:
        self._admission.forget(link)

    def gone(self, link: TcpLink) -> None:
        self._admission.forget(link)
        self._links.discard(link)
        if self._all_gone is not None and not (self._links or self._all_gone.done()):
            self._all_gone.set_result(None)

    def _sweep_later(self) -> None:
        due_s = self._admission.due_s
        if self._sweep is not None and due_s is not None and due_s < self._sweep_at_s:
            self._sweep.cancel()
            self._sweep = None
        if self._sweep is None and due_s is not None:
            self._sweep, self._sweep_at_s = self._loop.call_at(due_s, self._drop_overdue), due_s

    def _drop_overdue(self) -> None:
        self._sweep = None
        self._drop(self._admission.overdue(self._loop.time()))
        self._sweep_later()

    def _drop(self, dropped: list[Dropped[TcpLink]]) -> None:
        for link, problem in dropped:
            link.refuse(problem)


async def listen(
    host: str,
    port: int,
    on_link: Callable[[TcpLink], None],
    *,
    refused: OnRefused = _log_refused,
    limits: AdmissionLimits | None = None,
    tls: ssl.SSLContext | None = None,
) -> Listener:
    """Take connections. `on_link` gets each link, then its Hello comes: it must set `received` and `lost` before it returns.

    It calls `admit` once it knows the user. `refused` is called for a peer that did not speak the protocol, with the reason.
    """
    listener = Listener(on_link, refused=refused, limits=limits or AdmissionLimits(), tls=tls)
    await listener.start(host, port)
    return listener


async def dial(address: tuple[str, int], timeout: float, tls: ssl.SSLContext | None = None) -> TcpLink:
    """Return a link to the server at (host, port). Unreachable with the reason if there is none within the timeout.

    With TLS, the server has proved to be that host before this returns; Untrusted if it could not.
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
            f"cannot connect to {host}:{port}: {_reason(problem)}; is the server running?", host=host, port=port
        ) from problem
    except HoldfastError as problem:
        raise type(problem)(f"{host}:{port}: {problem}", **problem.fields) from problem
    return link


async def dial_local(name: str) -> TcpLink | None:
    """Return a link over a local socket to the server that has this name; None if there is none on this machine."""
    dialled = local_socket.dial(name)
    if dialled is None:
        return None
    _, link = await asyncio.get_running_loop().create_unix_connection(lambda: _OutgoingLink(None), sock=dialled)
    return link


def _reason(problem: OSError) -> str:
    """Return the reason in the words of the system, if it has some; an unknown host name has its own."""
    return os.strerror(problem.errno) if problem.errno and problem.errno > 0 else str(problem.strerror or problem)
